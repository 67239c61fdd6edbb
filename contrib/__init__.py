"""OrbitMQ as a part of other libraries: a folder for each. None of them is needed to use OrbitMQ itself."""
