"""Tables: rows with named columns, from files, from frames in memory and from objects of `datasets`."""
