struct reader;
