/* Looking for disks of pools: by their labels, changing nothing. */
#ifndef SFS_CLI_SCAN_H
#define SFS_CLI_SCAN_H

#include "cli/command.h"
#include "fs/disk/disk.h"

struct sfs_scan_disk {
    char *path; /* absolute */
    struct sfs_disk_probe probe;
};
struct sfs_scan {
    struct sfs_scan_disk **disks; /* those with a label, each once */
    unsigned n;
    unsigned unreadable; /* looked at without being asked for, and not readable */
};
/* Looks at path: at a disk, or at everything in a directory that is none. 0 or -errno with words (for path
 * itself; what is in a directory may be anything). */
int sfs_scan_path(struct sfs_cli *c, struct sfs_scan *s, const char *path, struct sfs_error *err);
/* Looks where a disk of a pool was last seen. */
void sfs_scan_hint(struct sfs_cli *c, struct sfs_scan *s, const char *path, const struct sfs_uuid *pool);
/* Looks at all block devices and mounted directories. */
void sfs_scan_host(struct sfs_cli *c, struct sfs_scan *s);
void sfs_scan_free(struct sfs_scan *s); /* what it holds */

#endif
