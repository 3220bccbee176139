"""Knowledge that is kept and searched as entries: notes, layers and refs over one port, `ports.EntryStore`."""
