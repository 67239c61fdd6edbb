enum sql_result { SQL_FALSE = 0, SQL_TRUE = 1, SQL_NULL = 2, SQL_ERROR = 3 };
struct sql_fault {
    uint32_t at;
    uint32_t size;
    const char *expected;
    const char *why;
    const char *way;
    bool memory;
};
struct sql_program *sql_compile(const uint8_t *text, uint32_t size, struct sql_fault *fault);
void sql_free(struct sql_program *program);
enum sql_result sql_evaluate(const struct sql_program *program, const uint8_t *properties, uint32_t size);
