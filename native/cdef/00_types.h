struct bell;
struct lock;
struct ring;
struct actor_page;
struct sql_program;
struct record_host {
    uint8_t data[20];
    uint32_t size;
};
