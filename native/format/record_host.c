#include "format/record_host.h"
#include "base/bytes.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

uint32_t record_host_write(struct slice stored, char text[RECORD_HOST_TEXT])
{
    const bool six = stored.size == RECORD_HOST_V6;
    char address[INET6_ADDRSTRLEN] = "";
    inet_ntop(six ? AF_INET6 : AF_INET, stored.data, address, sizeof address);
    return (uint32_t)snprintf(text, RECORD_HOST_TEXT, six ? "[%s]:%u" : "%s:%u", address,
                              (unsigned)load_be32(stored.data + stored.size - 4));
}

bool record_host_read(const char *text, struct record_host *host)
{
    struct record_host found = {.size = *text == '[' ? RECORD_HOST_V6 : RECORD_HOST_V4};
    const bool six = found.size == RECORD_HOST_V6;
    const char *const from = text + six, *const end = strrchr(from, six ? ']' : ':'), *const port = strrchr(from, ':');
    char address[INET6_ADDRSTRLEN] = "";
    *host = RECORD_HOST_LOCAL;
    if (!end || (port != end + six) || (size_t)(end - from) >= sizeof address)
        return false;
    memcpy(address, from, (size_t)(end - from));
    if (inet_pton(six ? AF_INET6 : AF_INET, address, found.data) != 1)
        return false;
    store_be32(found.data + found.size - 4, (uint32_t)strtoul(port + 1, NULL, 10));
    *host = found;
    return true;
}
