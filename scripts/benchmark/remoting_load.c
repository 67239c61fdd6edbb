/* Sends of RocketMQ's protocol from a client that costs little: what a broker can take when no JVM shares the processors with it.
 *
 *   remoting_load PORT TOPIC CONNECTIONS WINDOW MS
 *
 * Each connection to 127.0.0.1 has WINDOW requests under way (SEND_MESSAGE_V2, bodies of 100 bytes, as the Java client sends them, with a
 * unique key each). For each answer it sends the next request, until MS have passed. Prints [requests, seconds, ns of its own processor time,
 * p50 and p99 in us], from when a request was put behind the others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define QUEUES 8
#define BODY 100
#define FRAME_MAX 1024
#define IN_MAX (256 << 10)
#define CONNECTIONS_MAX 1024
#define WINDOW_MAX 1024
#define KEPT_MAX (1 << 22)
#define PATIENCE_MS 60000

struct connection {
    int socket;
    uint32_t sent, answered;   /* requests */
    int64_t begun[WINDOW_MAX]; /* of request n: place n % window; every answer counts as that of the oldest */
    uint32_t in_size, out_from, out_size;
    uint8_t in[IN_MAX];
    uint8_t out[WINDOW_MAX * FRAME_MAX];
};

static uint32_t number; /* of all requests */
static const char *topic;
static uint32_t window;
static uint32_t kept;
static uint32_t took_ns[KEPT_MAX];

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "remoting_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* One more request at the end of what is to be written. */
static void put_request(struct connection *connection)
{
    char header[FRAME_MAX];
    const uint32_t n = number++;
    const int size = snprintf(header, sizeof header,
                              "{\"code\":310,\"extFields\":{\"a\":\"load\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"%u\",\"f\":\"0\","
                              "\"g\":\"%lld\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u0001%08X%024X\\u0002WAIT\\u0001true\\u0002TAGS\\u0001paid\","
                              "\"j\":\"0\",\"k\":\"false\",\"l\":\"0\",\"m\":\"false\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,"
                              "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}",
                              topic, n % QUEUES, (long long)time(NULL) * 1000, (unsigned)getpid(), n, n);
    uint8_t *const at = connection->out + connection->out_size;
    const uint32_t sizes[2] = {htonl(4 + (uint32_t)size + BODY), htonl((uint32_t)size)};
    memcpy(at, sizes, sizeof sizes);
    memcpy(at + sizeof sizes, header, (size_t)size);
    memset(at + sizeof sizes + size, 'x', BODY);
    connection->out_size += (uint32_t)(sizeof sizes + (size_t)size + BODY);
    connection->begun[connection->sent++ % window] = now_ns();
}

static void write_out(struct connection *connection)
{
    while (connection->out_from < connection->out_size) {
        const ssize_t wrote =
            send(connection->socket, connection->out + connection->out_from, connection->out_size - connection->out_from, MSG_DONTWAIT);
        if (wrote < 0) {
            if (errno == EAGAIN)
                break;
            fail("write");
        }
        connection->out_from += (uint32_t)wrote;
    }
    memmove(connection->out, connection->out + connection->out_from, connection->out_size - connection->out_from);
    connection->out_size -= connection->out_from;
    connection->out_from = 0;
}

/* An answer must say that the message is stored. */
static void check_answer(const uint8_t *frame, uint32_t size)
{
    static const char good[] = "\"code\":0,";
    if (!memmem(frame, size, good, sizeof good - 1)) {
        errno = 0;
        fprintf(stderr, "%.*s\n", (int)size - 8, (const char *)frame + 8);
        fail("a message was not stored");
    }
}

static void read_in(struct connection *connection)
{
    const ssize_t got =
        recv(connection->socket, connection->in + connection->in_size, IN_MAX - connection->in_size, MSG_DONTWAIT);
    if (got <= 0) {
        if (got < 0 && errno == EAGAIN)
            return;
        fail("the connection ended");
    }
    connection->in_size += (uint32_t)got;
    uint32_t from = 0;
    const int64_t now = now_ns();
    while (connection->in_size - from >= 4) {
        uint32_t size;
        memcpy(&size, connection->in + from, sizeof size);
        size = ntohl(size) + 4;
        if (size > IN_MAX)
            fail("an answer is too long");
        if (connection->in_size - from < size)
            break;
        check_answer(connection->in + from, size);
        if (kept < KEPT_MAX)
            took_ns[kept++] = (uint32_t)(now - connection->begun[connection->answered % window]);
        connection->answered++;
        from += size;
    }
    memmove(connection->in, connection->in + from, connection->in_size - from);
    connection->in_size -= from;
}

static int open_socket(uint16_t port)
{
    const int found = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    if (found < 0 || connect(found, (const struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    setsockopt(found, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return found;
}

static int by_time(const void *one, const void *other)
{
    const uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

int main(int count, char **arguments)
{
    if (count != 6)
        return 2;
    topic = arguments[2];
    const uint32_t connections = (uint32_t)atoi(arguments[3]);
    window = (uint32_t)atoi(arguments[4]);
    if (connections == 0 || connections > CONNECTIONS_MAX || window == 0 || window > WINDOW_MAX)
        return 2;
    static struct connection *all[CONNECTIONS_MAX];
    static struct pollfd waits[CONNECTIONS_MAX];
    for (uint32_t i = 0; i < connections; i++) {
        all[i] = calloc(1, sizeof *all[i]);
        if (!all[i])
            fail("memory");
        all[i]->socket = open_socket((uint16_t)atoi(arguments[1]));
    }
    const int64_t begin = now_ns(), end = begin + atoll(arguments[5]) * 1000000;
    uint64_t answered = 0;
    int64_t now = begin;
    for (bool more = true; more || answered < number;) {
        for (uint32_t i = 0; i < connections; i++) {
            while (more && all[i]->sent - all[i]->answered < window)
                put_request(all[i]);
            write_out(all[i]);
            const short writes = all[i]->out_size ? POLLOUT : 0;
            waits[i] = (struct pollfd){.fd = all[i]->socket, .events = (short)(POLLIN | writes)};
        }
        if (poll(waits, connections, PATIENCE_MS) == 0)
            fail("no answer");
        answered = 0;
        for (uint32_t i = 0; i < connections; i++) {
            if (waits[i].revents & (POLLIN | POLLERR | POLLHUP))
                read_in(all[i]);
            answered += all[i]->answered;
        }
        now = now_ns();
        more = now < end;
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    const double ran = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e9 +
                       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e3;
    qsort(took_ns, kept, sizeof *took_ns, by_time);
    printf("[%llu, %.6f, %.0f, %.1f, %.1f]\n", (unsigned long long)answered, (double)(now - begin) / 1e9, ran, took_ns[kept / 2] / 1e3,
           took_ns[(uint64_t)kept * 99 / 100] / 1e3);
    return 0;
}
