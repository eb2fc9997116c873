/* Parts of what several commands show: tables of disks and spaces, and the pools known on this host. */
#ifndef SFS_CLI_SHOW_H
#define SFS_CLI_SHOW_H

#include <jansson.h>
#include "cli/command.h"
#include "cli/ui.h"

/* status: the result of a `status` request. */
void sfs_show_disks(const struct sfs_cli *c, const json_t *status, unsigned indent);
/* with_pool: names as POOL/SPACE. */
void sfs_show_spaces(const struct sfs_cli *c, const json_t *const *statuses, unsigned n, bool with_pool,
                     unsigned indent);
/* Jobs that go on, and the newest ended_max that have ended. Nothing when there are none. */
void sfs_show_jobs(const struct sfs_cli *c, const json_t *status, unsigned ended_max, unsigned indent);
/* damage: the result of a `damage` request, or that part of a status; at most max files. Nothing when there are none. */
void sfs_show_damage(const struct sfs_cli *c, const json_t *damage, unsigned max, unsigned indent);
enum sfs_tone sfs_show_health_tone(const char *health);

/* The `status` of every pool known on this host, as an array; {"pool", "error"} for one that could not be
 * asked. Each also says whether a daemon answered: "mounted" true or false. */
json_t *sfs_show_collect(struct sfs_cli *c);
void sfs_show_json_pools(const struct sfs_cli *c, json_t *pools); /* {"pools": [...]} on stdout */
void sfs_show_errors(const json_t *pools);                        /* the errors among them, on stderr */
void sfs_show_no_pools(void);

#endif
