/* A page that its owner writes while another thread reads it: numbers only grow, quantiles stay in range. */
#include "shared/counters.h"
#include "drive.h"

#define ROUNDS 50000u

static void *own(void *with)
{
    struct actor_page *page = with;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        actor_page_add(page, COUNT_MESSAGES, 3);
        actor_page_record(page, i);
    }
    return NULL;
}

int main(void)
{
    struct actor_page *page = drive_memory(sizeof *page);
    pthread_t owner = drive_start(own, page);
    struct actor_view view = {0};
    uint64_t last = 0;
    while (last < UINT64_C(3) * ROUNDS) {
        actor_page_view(page, &view);
        CHECK(view.counter[COUNT_MESSAGES] >= last);
        last = view.counter[COUNT_MESSAGES];
        CHECK(actor_page_quantile(page, 1.0) <= ROUNDS * 9 / 8);
    }
    drive_join(owner);
    CHECK(actor_page_samples(page) == ROUNDS);
    free(page);
    for (uint64_t value = 1; value != 0; value = value == UINT64_MAX ? 0 : value * 2 + 1)
        CHECK(histogram_lowest(histogram_index(value)) <= value);
    return 0;
}
