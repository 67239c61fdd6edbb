#include "check/findings.h"

#include <stdlib.h>

void findings_add(struct findings *findings, const struct finding *finding)
{
    if (findings->count == findings->room) {
        const uint32_t room = findings->room ? 2 * findings->room : 64;
        struct finding *list = realloc(findings->list, room * sizeof *list);
        if (!list) {
            findings->lost = true;
            return;
        }
        findings->list = list;
        findings->room = room;
    }
    findings->list[findings->count++] = *finding;
}

void findings_free(struct findings *findings)
{
    free(findings->list);
    *findings = (struct findings){0};
}
