struct index_commit {
    uint64_t version, position, indexed, name;
    struct index_header header;
};
bool index_commit_load(const uint8_t *data, struct index_commit *commit);
