"""Read the data of users: arrays, image folders, tables, torch data sets and objects in memory."""
