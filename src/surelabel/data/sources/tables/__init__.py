"""Tables: rows with named columns, from files, from data frames and from objects of `datasets`."""
