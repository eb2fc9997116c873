#include "fs/fuse/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/base/log.h"

/* The kernel reads 128 KiB ahead unless told otherwise, less than one stripe: that would keep one disk busy
 * at a time. INIT can only lower it. */
#define READ_AHEAD_KB "4096"
/* Share of the machine's dirty memory that pages dirtied through shared mappings may take; 1 % for FUSE
 * unless told otherwise. */
#define MAX_RATIO "20"

static void set_bdi(dev_t dev, const char *key, const char *value)
{
    char path[128];
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/%s", major(dev), minor(dev), key);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = write(fd, value, strlen(value));
        close(fd);
    }
    if (n < 0)
        sfs_log(SFS_LOG_DEBUG, "%s: %s", path, strerror(errno));
}

void sfs_fuse_tune(const char *dir)
{
    struct stat st;

    if (geteuid() != 0 || stat(dir, &st) < 0)
        return;
    set_bdi(st.st_dev, "read_ahead_kb", READ_AHEAD_KB);
    set_bdi(st.st_dev, "max_ratio", MAX_RATIO);
}
