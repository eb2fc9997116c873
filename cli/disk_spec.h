/* DISK arguments: PATH[,size=SIZE][,name=NAME]. */
#ifndef SFS_CLI_DISK_SPEC_H
#define SFS_CLI_DISK_SPEC_H

#include <jansson.h>
#include "cli/command.h"
#include "fs/pool/pool.h"

struct sfs_disk_args {
    struct sfs_disk_spec *specs; /* their strings belong to this object */
    char **texts;
    unsigned n;
};
/* 0, or an exit code after words on stderr. Free in both cases. */
int sfs_disk_args_parse(const struct sfs_cli *c, char **args, unsigned n, struct sfs_disk_args *out);
void sfs_disk_args_free(struct sfs_disk_args *a);
/* With --force: names what is on the disks and would be overwritten, and asks. True to go on. */
bool sfs_disk_args_confirm(struct sfs_cli *c, const struct sfs_disk_args *a);
/* The request that adds them to a pool (cmd_disk.c). NULL: out of memory, or no UTF-8. */
json_t *sfs_disk_add_request(const struct sfs_cli *c, const struct sfs_disk_args *a);

#endif
