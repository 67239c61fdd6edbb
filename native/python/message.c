/* Message: 48 bytes and no copy. It holds its keeper (a pinned CommitLog file, or bytes) and the record's address. Every
 * attribute is decoded when it is asked for, because most users ask for one or two. The message exports the buffer protocol
 * over its body, so a memoryview keeps the message, and the message keeps the mapping. */
#include "python/message.h"
#include "base/bytes.h"
#include "format/reserved.h"

struct message {
    PyObject_HEAD
    PyObject *keeper;
    const uint8_t *record;
    uint32_t size;
    uint32_t body_at;
    uint32_t body_size;
};

#define CRC_NAME "__CRC32#"
/* Largest decompressed body. A record of 4 MiB can decompress to a thousand times as many zeros; RocketMQ's producers send at
 * most 4 MiB of plain body by default. */
#define PLAIN_MAX (64 << 20)

static PyTypeObject *message_type;

PyObject *py_message_new(PyObject *keeper, const uint8_t *record, uint32_t size, uint32_t body_at, uint32_t body_size)
{
    struct message *message = (struct message *)PyType_GenericAlloc(message_type, 0);
    if (!message)
        return NULL;
    message->keeper = Py_NewRef(keeper);
    message->record = record;
    message->size = size;
    message->body_at = body_at;
    message->body_size = body_size;
    return (PyObject *)message;
}

/* At most PLAIN_MAX + 1 bytes of a zlib stream; NULL with an error if it is none, or is cut off. */
static PyObject *inflate(PyObject *packed)
{
    PyObject *zlib = PyImport_ImportModule("zlib");
    PyObject *stream = zlib ? PyObject_CallMethod(zlib, "decompressobj", NULL) : NULL;
    PyObject *plain = stream ? PyObject_CallMethod(stream, "decompress", "On", packed, (Py_ssize_t)PLAIN_MAX + 1) : NULL;
    PyObject *whole = plain ? PyObject_GetAttrString(stream, "eof") : NULL;
    if (plain && whole != Py_True && PyBytes_Size(plain) <= PLAIN_MAX) {
        Py_CLEAR(plain);
        PyErr_SetNone(PyExc_ValueError);
    }
    Py_XDECREF(whole);
    Py_XDECREF(stream);
    Py_XDECREF(zlib);
    return plain;
}

/* The same of what Arrow knows: a frame of lz4 or zstd. It takes no bytes at all for a whole stream; the caller does not. */
static PyObject *inflate_by_arrow(PyObject *packed, const char *codec)
{
    PyObject *arrow = PyImport_ImportModule("pyarrow");
    PyObject *source = arrow ? PyObject_CallMethod(arrow, "BufferReader", "O", packed) : NULL;
    PyObject *stream = source ? PyObject_CallMethod(arrow, "CompressedInputStream", "Os", source, codec) : NULL;
    PyObject *plain = stream ? PyObject_CallMethod(stream, "read", "n", (Py_ssize_t)PLAIN_MAX + 1) : NULL;
    Py_XDECREF(stream);
    Py_XDECREF(source);
    Py_XDECREF(arrow);
    return plain;
}

/* True if the exception says that it is no stream of its kind. */
static bool is_no_stream(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *zlib = PyImport_ImportModule("zlib");
    PyObject *error = zlib ? PyObject_GetAttrString(zlib, "error") : NULL;
    const bool found = PyErr_GivenExceptionMatches(type, PyExc_ValueError) || PyErr_GivenExceptionMatches(type, PyExc_OSError) ||
                       (error && PyErr_GivenExceptionMatches(type, error));
    Py_XDECREF(error);
    Py_XDECREF(zlib);
    PyErr_Restore(type, value, trace);
    return found;
}

/* The record is whole, so what is no stream, or becomes too large, is what its producer sent: it comes as it is stored. */
static PyObject *decompress(const uint8_t *record, const uint8_t *body, uint32_t size)
{
    static const char *const codecs[] = {"zlib", "lz4", "zstd", "zlib"};
    const uint32_t type = load_be32(record + RECORD_SYSFLAG_AT) & SYSFLAG_COMPRESSION_TYPE;
    const unsigned long long at = load_be64(record + RECORD_PHYSICAL_AT);
    if (type > SYSFLAG_COMPRESSION_ZLIB)
        return py_raise("StoreUnsupported", NULL, Py_BuildValue("{s:K}", "offset", at),
                          "could not decompress the body of the record at %llu: its compression type is 0x%x, and only zlib, lz4 and zstd are known",
                          at, (unsigned)type);
    const char *const codec = codecs[type / SYSFLAG_COMPRESSION_LZ4];
    PyObject *packed = PyBytes_FromStringAndSize((const char *)body, size);
    PyObject *plain = !packed || !size ? Py_XNewRef(packed) : codec[1] == 'l' ? inflate(packed) : inflate_by_arrow(packed, codec);
    if (plain && PyBytes_Size(plain) > PLAIN_MAX) {
        Py_DECREF(plain);
        plain = Py_NewRef(packed);
    } else if (packed && !plain && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear();
        py_raise("StoreUnsupported", "pip install 'orbitmq[arrow]'", Py_BuildValue("{s:K}", "offset", at),
                   "could not decompress the body of the record at %llu: %s needs pyarrow, which is not installed", at, codec);
    } else if (packed && !plain && is_no_stream()) {
        PyErr_Clear();
        plain = Py_NewRef(packed);
    }
    Py_XDECREF(packed);
    return plain;
}

static inline int is_compressed(const uint8_t *record) { return load_be32(record + RECORD_SYSFLAG_AT) & SYSFLAG_COMPRESSED; }

PyObject *py_body_bytes(const uint8_t *record, uint32_t body_at, uint32_t body_size)
{
    if (__builtin_expect(is_compressed(record), 0))
        return decompress(record, record + body_at, body_size);
    return PyBytes_FromStringAndSize((const char *)record + body_at, body_size);
}

static void message_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((struct message *)self)->keeper);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int message_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct message *message = (struct message *)self;
    if (is_compressed(message->record)) {
        PyObject *plain = decompress(message->record, message->record + message->body_at, message->body_size);
        if (!plain) {
            view->obj = NULL;
            return -1;
        }
        const int result = PyObject_GetBuffer(plain, view, flags);
        Py_DECREF(plain); /* the view holds it */
        return result;
    }
    return PyBuffer_FillInfo(view, self, (void *)(uintptr_t)(message->record + message->body_at), message->body_size, 1, flags);
}

/* For a compressed body, the length of the plain one, which has to be made for it. */
static Py_ssize_t message_length(PyObject *self)
{
    const struct message *message = (struct message *)self;
    if (!is_compressed(message->record))
        return (Py_ssize_t)message->body_size;
    PyObject *plain = decompress(message->record, message->record + message->body_at, message->body_size);
    const Py_ssize_t length = plain ? PyBytes_Size(plain) : -1;
    Py_XDECREF(plain);
    return length;
}

/* Otherwise a message without a body would be false because of its length, and `while message := consumer.poll(1)` would end at
 * it. */
static int message_bool(PyObject *self)
{
    (void)self;
    return 1;
}

/* The record was checked when the message was made, so parsing cannot fail. */
static struct record_view view_of(PyObject *self)
{
    const struct message *message = (struct message *)self;
    struct record_view view = {0};
    const enum record_fault fault = record_parse(message->record, message->size, &view);
    if (fault != RECORD_GOOD) /* a file changed under us: an empty view, never a wild pointer */
        view = (struct record_view){0};
    return view;
}

/* Stored bytes as text. What is not UTF-8 becomes U+FFFD, as in Java. */
static PyObject *text(struct slice slice)
{
    return PyUnicode_DecodeUTF8((const char *)slice.data, slice.size, "replace");
}

static PyObject *message_body(PyObject *self, void *unused)
{
    (void)unused;
    return PyMemoryView_FromObject(self);
}

static PyObject *message_topic(PyObject *self, void *unused)
{
    (void)unused;
    return text(view_of(self).topic);
}

static PyObject *message_tags(PyObject *self, void *unused)
{
    (void)unused;
    const struct slice properties = view_of(self).properties;
    const struct slice tags = properties_get(properties.data, properties.size, "TAGS", 4);
    return tags.data ? text(tags) : Py_NewRef(Py_None);
}

static PyObject *message_keys(PyObject *self, void *unused)
{
    (void)unused;
    const struct slice properties = view_of(self).properties;
    const struct slice keys = properties_get(properties.data, properties.size, "KEYS", 4);
    PyObject *list = PyList_New(0);
    for (uint32_t at = 0; list && at < keys.size;) {
        const uint8_t *space = memchr(keys.data + at, ' ', keys.size - at);
        const uint32_t end = space ? (uint32_t)(space - keys.data) : keys.size;
        if (end > at) {
            PyObject *key = text((struct slice){keys.data + at, end - at});
            if (!key || PyList_Append(list, key) < 0)
                Py_CLEAR(list);
            Py_XDECREF(key);
        }
        at = end + 1;
    }
    return list;
}

/* only_own: without the names that RocketMQ or OrbitMQ give a meaning. */
static PyObject *properties_dict(PyObject *self, bool only_own)
{
    const struct slice properties = view_of(self).properties;
    PyObject *dict = PyDict_New();
    uint32_t position = 0;
    struct slice name, value;
    while (dict && properties_next(properties.data, properties.size, &position, &name, &value)) {
        /* the record's own check, not something that was sent */
        if (name.size == sizeof CRC_NAME - 1 && memcmp(name.data, CRC_NAME, name.size) == 0)
            continue;
        if (only_own && reserved_property(name) != RESERVED_NOT)
            continue;
        PyObject *key = text(name);
        PyObject *item = key ? text(value) : NULL;
        if (!item || PyDict_SetItem(dict, key, item) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(item);
    }
    return dict;
}

static PyObject *message_properties(PyObject *self, void *unused)
{
    (void)unused;
    return properties_dict(self, false);
}

static PyObject *message_user_properties(PyObject *self, void *unused)
{
    (void)unused;
    return properties_dict(self, true);
}

/* RocketMQ's offset message id: store host, then physical offset, in upper-case hex. */
static PyObject *message_id(PyObject *self, void *unused)
{
    (void)unused;
    static const char digits[] = "0123456789ABCDEF";
    const struct record_view view = view_of(self);
    uint8_t raw[28];
    char hex[56];
    uint32_t size = view.store_host.size <= 20 ? view.store_host.size : 0;
    if (size)
        memcpy(raw, view.store_host.data, size);
    store_be64(raw + size, view.physical_offset);
    size += 8;
    for (uint32_t i = 0; i < size; i++) {
        hex[2 * i] = digits[raw[i] >> 4];
        hex[2 * i + 1] = digits[raw[i] & 15];
    }
    return PyUnicode_FromStringAndSize(hex, 2 * size);
}

static PyObject *message_born_host(PyObject *self, void *unused)
{
    (void)unused;
    const struct record_view view = view_of(self);
    char address[RECORD_HOST_TEXT] = "";
    const uint32_t size = view.born_host.data ? record_host_write(view.born_host, address) : 0;
    return PyUnicode_FromStringAndSize(address, size);
}

enum number { QUEUE, OFFSET, PHYSICAL, SIZE, BORN, STORED, FLAG, SYS_FLAG, RECONSUME, PREPARED };

static PyObject *message_number(PyObject *self, void *which)
{
    const struct record_view view = view_of(self);
    uint64_t value = 0;
    switch ((enum number)(uintptr_t)which) {
    case QUEUE: value = view.queue_id; break;
    case OFFSET: value = view.queue_offset; break;
    case PHYSICAL: value = view.physical_offset; break;
    case SIZE: value = view.total_size; break;
    case BORN: value = view.born_ms; break;
    case STORED: value = view.store_ms; break;
    case FLAG: return PyLong_FromLong((int32_t)view.flag); /* signed in every RocketMQ client */
    case SYS_FLAG: value = view.sys_flag; break;
    case RECONSUME: value = view.reconsume_times; break;
    case PREPARED: value = view.prepared_offset; break;
    }
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *message_repr(PyObject *self)
{
    const struct record_view view = view_of(self);
    PyObject *topic = text(view.topic);
    if (!topic)
        return NULL;
    PyObject *repr = PyUnicode_FromFormat("Message(topic=%R, queue=%u, offset=%llu, body=<%u bytes%s>)", topic,
                                          (unsigned)view.queue_id, (unsigned long long)view.queue_offset,
                                          (unsigned)view.body.size, view.sys_flag & SYSFLAG_COMPRESSED ? ", compressed" : "");
    Py_DECREF(topic);
    return repr;
}

/* Message.from_record(data): over one whole record in any bytes, which it keeps. */
static PyObject *message_from_record(PyObject *type, PyObject *data)
{
    (void)type;
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "a record must be bytes");
        return NULL;
    }
    char *at;
    Py_ssize_t size;
    struct record_view view;
    if (PyBytes_AsStringAndSize(data, &at, &size) < 0)
        return NULL;
    const enum record_fault fault = record_parse((const uint8_t *)at, (uint64_t)size, &view);
    if (fault != RECORD_GOOD)
        return py_raise("CorruptRecord", NULL, Py_BuildValue("{s:O}", "offset", Py_None),
                          "could not read a record of %zd bytes: fault %d", size, (int)fault);
    if (record_check_body((const uint8_t *)at, &view) != RECORD_GOOD)
        return py_raise("CorruptRecord", NULL, Py_BuildValue("{s:K}", "offset", (unsigned long long)view.physical_offset),
                          "could not read the record of physical offset %llu: its body does not match its CRC",
                          (unsigned long long)view.physical_offset);
    return py_message_new(data, (const uint8_t *)at, view.total_size, (uint32_t)(view.body.data - (const uint8_t *)at),
                            view.body.size);
}

static PyObject *message_record(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct message *message = (struct message *)self;
    return PyBytes_FromStringAndSize((const char *)message->record, message->size);
}

/* message.reply(body, ...): orbitmq.client.request.reply does it, over the connection that the message came by. */
static PyObject *message_reply(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *home = PyObject_GetAttrString(((struct message *)self)->keeper, "home");
    if (!home) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return NULL;
        PyErr_Clear(); /* bytes keep it, which came by no connection */
        home = Py_NewRef(Py_None);
    }
    PyObject *module = PyImport_ImportModule("orbitmq.client.request.reply");
    PyObject *reply = module ? PyObject_GetAttrString(module, "reply_over") : NULL;
    PyObject *first = reply ? PyTuple_Pack(2, home, self) : NULL;
    PyObject *all = first ? PySequence_Concat(first, arguments) : NULL;
    PyObject *receipt = all ? PyObject_Call(reply, all, keywords) : NULL;
    Py_XDECREF(all);
    Py_XDECREF(first);
    Py_XDECREF(reply);
    Py_XDECREF(module);
    Py_DECREF(home);
    return receipt;
}

#define NUMBER(name, which, doc) {name, message_number, NULL, doc, (void *)(uintptr_t)(which)}

static PyGetSetDef message_attributes[] = {
    {"body", message_body, NULL, "memoryview: into the mapped log, no copy; of a decompressed copy if it is stored compressed", NULL},
    {"topic", message_topic, NULL, "str: the topic's name", NULL},
    {"tags", message_tags, NULL, "str: the tag, or None", NULL},
    {"keys", message_keys, NULL, "list of str: the keys that the message can be found by", NULL},
    {"properties", message_properties, NULL, "dict of str: all that was sent beside the body, tags and keys included", NULL},
    {"user_properties", message_user_properties, NULL,
     "dict of str: the properties that the sender chose; another message may be sent with them, as properties=", NULL},
    {"id", message_id, NULL, "str: for Client.message: store host and physical offset, 32 hex digits; 56 if that host has an IPv6 address", NULL},
    {"born_host", message_born_host, NULL,
     "str: address and port of the remote client that sent it, 10.1.2.3:40000 or [fd00::5]:40000; of a local one 127.0.0.1:0", NULL},
    NUMBER("queue", QUEUE, "int: number of the topic's queue"),
    NUMBER("offset", OFFSET, "int: queue offset; the next message of the queue has the next number"),
    NUMBER("physical_offset", PHYSICAL, "int: where the record begins, bytes from the beginning of the log"),
    NUMBER("size", SIZE, "int: bytes of the whole record"),
    NUMBER("born_ms", BORN, "int: when it was sent, milliseconds since the epoch"),
    NUMBER("stored_ms", STORED, "int: when it was appended, milliseconds since the epoch"),
    NUMBER("flag", FLAG, "int: the sender's own, signed 32 bits"),
    NUMBER("sys_flag", SYS_FLAG, "int: bits of RocketMQ's sysFlag"),
    NUMBER("reconsume_times", RECONSUME, "int: how often it was sent back"),
    NUMBER("prepared_offset", PREPARED, "int: physical offset of the half message; of a delayed message that came, which one it was (docs/delay.md); or 0"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef message_methods[] = {
    {"record", message_record, METH_NOARGS,
     "record($self)\n--\n\nThe whole record as it is stored: bytes, a copy. Message.from_record reads it.\n"},
    {"reply", (PyCFunction)(void (*)(void))message_reply, METH_VARARGS | METH_KEYWORDS,
     "reply($self, /, body, *, keys=(), properties=None, flag=0, durability=None, timeout=None)\n--\n\n"
     "Replies to this message, which must be a request; see docs/request-reply.md. An event loop awaits AsyncClient.reply.\n\n"
     "Args:\n    body: bytes, another buffer or str.\n"
     "    keys, properties, flag, durability: of the reply, as in Producer.send.\n"
     "    timeout: seconds to wait for the receipt; None: as producers do.\n\n"
     "Returns: the Receipt of the reply. Whether the requester still waits is not known.\n\n"
     "Raises: UsageError: this is no request, or the message came by no client; and what Producer.send raises.\n"},
    {"from_record", message_from_record, METH_O | METH_CLASS,
     "from_record($type, data, /)\n--\n\nA message over one whole stored record.\n\n"
     "Args:\n    data: bytes, which the message keeps; as from record().\n\n"
     "Raises: CorruptRecord: this is not a record, or the body does not match its CRC.\n"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot message_slots[] = {
    {Py_tp_doc, "A message as a consumer gets it: a view into the log, which keeps the log's file mapped while the message lives.\n\n"
                "bytes(message) copies the body, len(message) is the body's length in bytes, message.body is a memoryview of it.\n"
                "A message is true even if it has no body. It stays valid when its consumer is closed and the broker has ended."},
    {Py_tp_dealloc, (void *)message_dealloc},
    {Py_tp_repr, (void *)message_repr},
    {Py_tp_getset, message_attributes},
    {Py_tp_methods, message_methods},
    {Py_bf_getbuffer, (void *)message_getbuffer},
    {Py_sq_length, (void *)message_length},
    {Py_nb_bool, (void *)message_bool},
    {0, NULL},
};

static PyType_Spec message_spec = {
    .name = "orbitmq.native._types.Message",
    .basicsize = sizeof(struct message),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = message_slots,
};

int py_add_message(PyObject *module)
{
    message_type = py_add_type(module, &message_spec);
    return message_type ? 0 : -1;
}
