"""How other toolkits lay out a Transformer: the tables that reading and writing share."""
