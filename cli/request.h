/* Asking a pool: through its daemon where one runs, else by opening it in this process for the time of the
 * request. The request is the same (fs/daemon/control.h). */
#ifndef SFS_CLI_REQUEST_H
#define SFS_CLI_REQUEST_H

#include <jansson.h>
#include "cli/command.h"
#include "fs/base/error.h"

enum {
    SFS_REQUEST_READONLY = 1, /* changes nothing: in this process the pool is opened read-only */
    SFS_REQUEST_WAIT_IN_PROCESS =
        2 /* in this process the request gets "wait": true: nobody would go on with it */
};

struct sfs_target {
    char pool[SFS_NAME_MAX + 1]; /* the pool's name */
    char which[SFS_PATH_BYTES];  /* that name, or the absolute path of a disk */
    struct sfs_uuid uuid;        /* of the label, when given by path; else null */
};
/* Finds out which pool is meant. By path: from the disk's label. */
int sfs_target_resolve(struct sfs_cli *c, const char *which, struct sfs_target *out, struct sfs_error *err);
/* "POOL/SPACE": cut at the last slash; the space's name is checked. which gets POOL (at most cap bytes),
 * space its name. */
int sfs_target_split(const char *text, char *which, size_t cap, char space[SFS_NAME_MAX + 1],
                     struct sfs_error *err);

/* Asks a running daemon only: -ENOENT (no words) when none runs. Steals nothing. */
int sfs_request_daemon(struct sfs_cli *c, const struct sfs_target *t, const json_t *request, json_t **result,
                       struct sfs_error *err);
/* Runs a request (stolen; NULL: out of memory) on a pool named as typed. Prints warnings. 0 and the result,
 * which is never NULL; else -errno with words. Sets c->by_daemon. */
int sfs_request_try(struct sfs_cli *c, const char *which, json_t *request, unsigned flags, json_t **result,
                    struct sfs_error *err);
/* The same for a command that has nothing better to do with an error than to say it: NULL after words on
 * stderr. */
json_t *sfs_request(struct sfs_cli *c, const char *which, json_t *request, unsigned flags);

/* Values of a reply; what is missing or of another type is "", 0, false or an empty array. */
const char *sfs_json_text(const json_t *object, const char *key);
uint64_t sfs_json_u64(const json_t *object, const char *key);
bool sfs_json_true(const json_t *object, const char *key);
const json_t *sfs_json_array(const json_t *object, const char *key);
void sfs_json_print(const struct sfs_cli *c,
                    const json_t *value); /* on stdout, indented; with --watch on one line */
/* Ends a command that changed something: prints the result with --json (decref'ed), else the words. Returns
 * SFS_EXIT_OK. */
int sfs_request_done(struct sfs_cli *c, json_t *result, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
