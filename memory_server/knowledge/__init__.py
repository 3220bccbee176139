"""Knowledge as entries: notes, sessions, layers and refs. All are kept and searched over one port, `ports.EntryStore`."""
