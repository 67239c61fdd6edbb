struct queue_name {
    uint32_t queue_id;
    uint8_t topic_size;
    uint8_t topic[127];
};
