struct work_view {
    uint64_t free, held, waiting, parting, done;
    uint64_t wait_ms, first, first_left_ms;
    uint32_t first_state, first_tries, first_slot, first_epoch;
};
struct work_hands {
    uint32_t slot, epoch;
    uint64_t held, left_ms;
};
uint64_t work_view_word(uint32_t state, uint32_t tries, uint32_t slot, uint32_t epoch, uint32_t tick);
void work_view(const uint8_t *file, uint64_t floor, uint64_t frontier, uint64_t now_ms, struct work_view *view, struct work_hands *hands,
               uint32_t workers);
