struct bell;
struct lock;
struct ring;
struct actor_page;
struct sql_program;
