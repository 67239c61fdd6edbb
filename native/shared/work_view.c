/* One pass over the words of a queue; it changes nothing. */
#include "shared/work_view.h"

static struct work_hands *hands_of(uint64_t word, struct work_hands *hands, uint32_t workers)
{
    uint32_t low = 0, high = workers;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (hands[middle].slot < work_slot(word))
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < workers && hands[low].slot == work_slot(word) && (hands[low].epoch & 0xffff) == work_epoch(word);
    return found ? &hands[low] : NULL;
}

static void count(uint64_t word, uint64_t now_ms, struct work_view *view, struct work_hands *hands, uint32_t workers)
{
    const uint64_t left_ms = work_left_ms(work_tick(word), now_ms);
    struct work_hands *mine;
    switch (work_state_of(word)) {
    case WORK_HELD:
        view->held++;
        mine = hands_of(word, hands, workers);
        if (mine) {
            mine->held++;
            mine->left_ms = left_ms < mine->left_ms ? left_ms : mine->left_ms;
        }
        break;
    case WORK_WAITING:
        view->waiting++;
        view->wait_ms = left_ms < view->wait_ms ? left_ms : view->wait_ms;
        break;
    case WORK_DONE:
        view->done++;
        break;
    case WORK_PARTING:
        view->parting++;
        break;
    case WORK_FREE:
    default:
        view->free++;
        break;
    }
}

void work_view(const uint8_t *file, uint64_t floor, uint64_t frontier, uint64_t now_ms, struct work_view *view, struct work_hands *hands,
               uint32_t workers)
{
    const uint64_t *words = (const uint64_t *)(const void *)(file + WORK_WORDS_AT);
    *view = (struct work_view){.wait_ms = UINT64_MAX, .first = frontier};
    for (uint64_t at = floor; at < frontier; at++) {
        const uint64_t word = words[at % WORK_WINDOW];
        count(word, now_ms, view, hands, workers);
        if (view->first == frontier && work_state_of(word) != WORK_DONE) {
            view->first = at;
            view->first_left_ms = work_left_ms(work_tick(word), now_ms);
            view->first_state = (uint32_t)work_state_of(word);
            view->first_tries = work_tries(word);
            view->first_slot = work_slot(word);
            view->first_epoch = work_epoch(word);
        }
    }
}

uint64_t work_view_word(uint32_t state, uint32_t tries, uint32_t slot, uint32_t epoch, uint32_t tick)
{
    return work_word((enum work_state)state, tries, slot, epoch, tick);
}
