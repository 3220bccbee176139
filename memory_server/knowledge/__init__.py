"""Knowledge, kept and searched as entries over one port, `ports.EntryStore`: notes, sessions, layers and refs."""
