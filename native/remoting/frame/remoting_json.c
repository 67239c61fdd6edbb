/* The JSON form of a header: one object of a few numbers and texts, and of the object extFields with text values. Clients write numbers and
 * booleans there too, without quotes; they are taken as their text. Other keys may hold anything, and are passed over. */
#include "remoting/frame/remoting_json.h"
#include "remoting/frame/remoting_plain.h"

struct cursor {
    uint8_t *at;
    const uint8_t *end;
};

static const char *const languages[REMOTING_LANGUAGES] = {"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
                                                          "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"};

static void pass_space(struct cursor *in)
{
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r'))
        in->at++;
}

static bool pass_behind_space(struct cursor *in, char wanted)
{
    pass_space(in);
    if (in->at == in->end || *in->at != (uint8_t)wanted)
        return false;
    in->at++;
    return true;
}

/* Passes over space, of which clients write none, then this character. */
static inline bool pass(struct cursor *in, char wanted)
{
    if (in->at == in->end || *in->at != (uint8_t)wanted)
        return pass_behind_space(in, wanted);
    in->at++;
    return true;
}

static bool pass_word(struct cursor *in, const char *word)
{
    const size_t size = strlen(word);
    if ((size_t)(in->end - in->at) < size || memcmp(in->at, word, size) != 0)
        return false;
    in->at += size;
    return true;
}

static bool read_hex(struct cursor *in, uint32_t *unit)
{
    if (in->end - in->at < 4)
        return false;
    *unit = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t c = *in->at++, digit = c - '0', letter = (c | 0x20) - 'a';
        if (digit > 9 && letter > 5)
            return false;
        *unit = *unit << 4 | (digit > 9 ? letter + 10 : digit);
    }
    return true;
}

/* UTF-8 of a character that \u names, which may need a second \u. Half a pair is written as '?', as Java does. */
static bool read_unicode(struct cursor *in, uint8_t **to)
{
    uint32_t unit, low;
    uint8_t *out = *to;
    if (!read_hex(in, &unit))
        return false;
    if (unit >= 0xD800 && unit < 0xDC00) {
        struct cursor second = *in;
        if (pass_word(&second, "\\u") && read_hex(&second, &low) && low >= 0xDC00 && low < 0xE000) {
            unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            *in = second;
        }
    }
    if (unit >= 0xD800 && unit < 0xE000)
        unit = '?';
    if (unit < 0x80) {
        *out++ = (uint8_t)unit;
    } else if (unit < 0x800) {
        *out++ = (uint8_t)(0xC0 | unit >> 6);
        *out++ = (uint8_t)(0x80 | (unit & 0x3F));
    } else {
        if (unit < 0x10000) {
            *out++ = (uint8_t)(0xE0 | unit >> 12);
        } else {
            *out++ = (uint8_t)(0xF0 | unit >> 18);
            *out++ = (uint8_t)(0x80 | (unit >> 12 & 0x3F));
        }
        *out++ = (uint8_t)(0x80 | (unit >> 6 & 0x3F));
        *out++ = (uint8_t)(0x80 | (unit & 0x3F));
    }
    *to = out;
    return true;
}

/* What \u0001 to \u0009 name, as the separators of properties are written; otherwise passes nothing. */
static inline bool read_separator(struct cursor *in, uint8_t **to)
{
    if (in->end - in->at < 4 || memcmp(in->at, "000", 3) != 0 || (uint32_t)in->at[3] - '1' > 8)
        return false;
    *(*to)++ = (uint8_t)(in->at[3] - '0');
    in->at += 4;
    return true;
}

/* The rest of a text that began at `begin`, from its first escape or control character on. Escapes are replaced in place: what replaces
 * one is never longer. */
static bool read_escaped(struct cursor *in, uint8_t *begin, struct slice *text)
{
    static const uint8_t meant[128] = {['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};
    uint8_t *out = in->at;
    while (in->at < in->end) {
        const uint8_t c = *in->at++;
        if (c == '"') {
            *text = (struct slice){begin, (uint32_t)(out - begin)};
            return true;
        }
        if (c != '\\') {
            *out++ = c;
        } else {
            if (in->at == in->end)
                return false;
            const uint8_t kind = *in->at++;
            if (kind < sizeof meant && meant[kind])
                *out++ = meant[kind];
            else if (kind != 'u' || !(read_separator(in, &out) || read_unicode(in, &out)))
                return false;
        }
        const size_t run = remoting_plain_move(out, in->at, in->end);
        out += run;
        in->at += run;
    }
    return false;
}

/* A text. Those of clients have no escapes. */
static inline bool read_text(struct cursor *in, struct slice *text)
{
    if (!pass(in, '"'))
        return false;
    uint8_t *const begin = in->at;
    const size_t run = remoting_plain_run(begin, in->end);
    in->at += run;
    if (in->at == in->end || *in->at != '"')
        return read_escaped(in, begin, text);
    *text = (struct slice){begin, (uint32_t)run};
    in->at++;
    return true;
}

static bool pass_digits(struct cursor *in)
{
    uint8_t *const begin = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
        in->at++;
    return in->at > begin;
}

static bool pass_one_of(struct cursor *in, uint8_t one, uint8_t other)
{
    const bool found = in->at < in->end && (*in->at == one || *in->at == other);
    in->at += found;
    return found;
}

/* The text of a number, whole or not. */
static bool read_number_text(struct cursor *in, struct slice *text)
{
    uint8_t *const begin = in->at;
    pass_one_of(in, '-', '-');
    if (!pass_one_of(in, '0', '0') && !pass_digits(in))
        return false;
    if (pass_one_of(in, '.', '.') && !pass_digits(in))
        return false;
    if (pass_one_of(in, 'e', 'E')) {
        pass_one_of(in, '+', '-');
        if (!pass_digits(in))
            return false;
    }
    *text = (struct slice){begin, (uint32_t)(in->at - begin)};
    return true;
}

static bool read_int(struct cursor *in, int32_t *value)
{
    struct slice text;
    int64_t number;
    pass_space(in);
    if (!read_number_text(in, &text) || !remoting_number(text, &number) || number < INT32_MIN || number > INT32_MAX)
        return false;
    *value = (int32_t)number;
    return true;
}

/* A text, a number, true, false or null, as text; data == NULL for null. */
static bool read_plain(struct cursor *in, struct slice *text)
{
    pass_space(in);
    uint8_t *const begin = in->at;
    if (begin < in->end && *begin == '"')
        return read_text(in, text);
    *text = (struct slice){0};
    if (pass_word(in, "null"))
        return true;
    if (!pass_word(in, "true") && !pass_word(in, "false"))
        return read_number_text(in, text);
    *text = (struct slice){begin, (uint32_t)(in->at - begin)};
    return true;
}

/* Passes over a value of any kind. */
static bool pass_value(struct cursor *in, uint32_t depth)
{
    struct slice text;
    pass_space(in);
    if (in->at == in->end)
        return false;
    const bool object = *in->at == '{';
    if (!object && *in->at != '[')
        return read_plain(in, &text);
    in->at++;
    const char close = object ? '}' : ']';
    if (pass(in, close))
        return true;
    if (depth == REMOTING_DEPTH_MAX)
        return false;
    do {
        if (object && (!read_text(in, &text) || !pass(in, ':')))
            return false;
        if (!pass_value(in, depth + 1))
            return false;
    } while (pass(in, ','));
    return pass(in, close);
}

/* A name of one letter and the colon behind it, as most of a send's are; otherwise passes nothing. */
static inline bool read_letter(struct cursor *in, struct slice *name)
{
    const uint8_t *const at = in->at;
    if (in->end - at < 4 || at[0] != '"' || at[2] != '"' || at[3] != ':' || !remoting_is_plain(at[1]))
        return false;
    *name = (struct slice){at + 1, 1};
    in->at += 4;
    return true;
}

static bool read_fields(struct cursor *in, struct remoting_header *header)
{
    header->field_count = 0;
    pass_space(in);
    header->has_fields = !pass_word(in, "null");
    if (!header->has_fields)
        return true;
    if (!pass(in, '{'))
        return false;
    if (pass(in, '}'))
        return true;
    do {
        struct slice name, value;
        if (!read_letter(in, &name) && (!read_text(in, &name) || !pass(in, ':')))
            return false;
        if (!read_plain(in, &value))
            return false;
        if (!value.data)
            continue;
        if (header->field_count == REMOTING_FIELDS_MAX)
            return false;
        header->fields[header->field_count++] = (struct remoting_field){name, value};
    } while (pass(in, ','));
    return pass(in, '}');
}

static bool is(struct slice text, const char *word) { return text.size == strlen(word) && !memcmp(text.data, word, text.size); }

static bool read_language(struct cursor *in, uint8_t *language)
{
    struct slice text;
    if (!read_plain(in, &text))
        return false;
    *language = REMOTING_OTHER;
    for (uint8_t i = 0; text.data && i < REMOTING_LANGUAGES; i++)
        if (is(text, languages[i])) {
            *language = i;
            break;
        }
    return true;
}

static bool read_key(struct cursor *in, struct slice key, struct remoting_header *header)
{
    if (is(key, "code"))
        return read_int(in, &header->code);
    if (is(key, "opaque"))
        return read_int(in, &header->opaque);
    if (is(key, "flag"))
        return read_int(in, &header->flag);
    if (is(key, "version"))
        return read_int(in, &header->version);
    if (is(key, "language"))
        return read_language(in, &header->language);
    if (is(key, "remark"))
        return read_plain(in, &header->remark);
    return is(key, "extFields") ? read_fields(in, header) : pass_value(in, 0);
}

bool remoting_json_read(uint8_t *data, uint32_t size, struct remoting_header *header)
{
    struct cursor in = {data, data + size};
    header->code = header->version = header->opaque = header->flag = 0;
    header->language = REMOTING_JAVA;
    header->remark = (struct slice){0};
    header->has_fields = false;
    header->field_count = 0;
    if (!pass(&in, '{'))
        return false;
    if (!pass(&in, '}')) {
        do {
            struct slice key;
            if (!read_text(&in, &key) || !pass(&in, ':') || !read_key(&in, key, header))
                return false;
        } while (pass(&in, ','));
        if (!pass(&in, '}'))
            return false;
    }
    pass_space(&in);
    return in.at == in.end;
}

static void put_word(struct remoting_text *text, const char *word) { remoting_text_put(text, word, strlen(word)); }

static void put_number(struct remoting_text *text, const char *key, int32_t value)
{
    uint8_t digits[11], *const end = digits + sizeof digits, *at = end;
    uint32_t left = value < 0 ? 0 - (uint32_t)value : (uint32_t)value;
    do
        *--at = (uint8_t)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    put_word(text, key);
    remoting_text_put(text, at, (uint64_t)(end - at));
}

static void put_text(struct remoting_text *text, struct slice value)
{
    static const char hex[] = "0123456789abcdef";
    put_word(text, "\"");
    for (const uint8_t *at = value.data, *const end = at + value.size; at < end; at++) {
        const size_t run = remoting_plain_run(at, end);
        remoting_text_put(text, at, run);
        at += run;
        if (at == end)
            break;
        if (*at < 0x20)
            remoting_text_put(text, (const char[]){'\\', 'u', '0', '0', hex[*at >> 4], hex[*at & 15]}, 6);
        else
            remoting_text_put(text, (const char[]){'\\', (char)*at}, 2);
    }
    put_word(text, "\"");
}

void remoting_json_write(struct remoting_text *text, const struct remoting_header *header)
{
    put_number(text, "{\"code\":", header->code);
    if (header->has_fields) {
        put_word(text, ",\"extFields\":{");
        for (uint32_t i = 0; i < header->field_count; i++) {
            if (i)
                put_word(text, ",");
            put_text(text, header->fields[i].name);
            put_word(text, ":");
            put_text(text, header->fields[i].value);
        }
        put_word(text, "}");
    }
    put_number(text, ",\"flag\":", header->flag);
    put_word(text, ",\"language\":\"");
    put_word(text, languages[header->language < REMOTING_LANGUAGES ? header->language : REMOTING_OTHER]);
    put_number(text, "\",\"opaque\":", header->opaque);
    if (header->remark.data) {
        put_word(text, ",\"remark\":");
        put_text(text, header->remark);
    }
    put_word(text, ",\"serializeTypeCurrentRPC\":\"JSON\"");
    put_number(text, ",\"version\":", header->version);
    put_word(text, "}");
}
