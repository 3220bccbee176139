"""Knowledge that is kept and searched as entries: notes, sessions, layers and refs over one port, `ports.EntryStore`."""
