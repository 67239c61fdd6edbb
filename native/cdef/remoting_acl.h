enum acl_permission { ACL_DENY = 1, ACL_PUB = 4, ACL_SUB = 8 };
struct acl;
struct acl *acl_open(void);
void acl_free(struct acl *acl);
bool acl_add_account(struct acl *acl, struct slice access_key, struct slice secret_key, bool admin, uint8_t topics, uint8_t groups);
bool acl_add_permission(struct acl *acl, bool group, struct slice name, uint8_t permission);
struct acl_range {
    uint8_t parts;
    uint16_t least[8], most[8];
};
bool acl_add_range(struct acl *acl, const struct acl_range *range);
void acl_seal(struct acl *acl);
enum acl_verdict { ACL_ALLOWED, ACL_NO_KEY, ACL_UNKNOWN_KEY, ACL_BAD_SIGNATURE, ACL_NOT_ADMIN, ACL_NO_TOPIC, ACL_NO_GROUP };
enum acl_verdict acl_check(const struct acl *acl, const char *peer, const struct remoting_header *header, struct slice body, struct slice *what);
bool acl_permits(const struct acl *acl, const char *peer, const struct remoting_header *header, bool group, struct slice name, uint8_t wanted);
