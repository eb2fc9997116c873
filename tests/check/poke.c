/* poke snapshot DISK...: takes a snapshot of the catalog, as a pool in use does every hour.
 * poke SQL DISK...: runs SQL on the catalog of a pool that is not open, on all of the given disks, with page checksums and all: faults that only spacesfs-check can find.
 * poke label FIELD=VALUE IMAGE...: writes format, ro_compat or incompat of both labels of each image, as a newer spacesfs might have. */
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fs/disk/disk.h"
#include "fs/disk/label_format.h"
#include "fs/layout/geometry.h"
#include "fs/pool/discover.h"
#include "meta/audit.h"
#include "meta/snapshot.h"

#define MAX_DISKS 8

static uint64_t slab_bytes;

static uint64_t capacity(void *ctx, int64_t r, int64_t columns, int64_t interleave)
{
    struct sfs_geometry g;
    (void)ctx;
    return sfs_geometry_init(&g, (enum sfs_resiliency)r, (unsigned)columns, (uint32_t)interleave, slab_bytes, NULL) ? 0 : sfs_geometry_capacity(&g);
}

static unsigned copies(int64_t r)
{
    return sfs_resiliency_copies((enum sfs_resiliency)r);
}

static unsigned parity(int64_t r)
{
    return sfs_resiliency_parity((enum sfs_resiliency)r);
}

static int poke(struct sfs_env *env, const struct sfs_store *stores, unsigned n, const char *sql, struct sfs_error *err)
{
    static const struct sfs_audit_geometry geometry = {capacity, copies, parity, NULL, NULL};
    struct sfs_replicas *r = NULL;
    struct sfs_audit *a = NULL;
    int rc = sfs_replicas_open(env, stores, n, NULL, false, &r);
    if (!rc)
        rc = sfs_replicas_recover(r, err);
    if (!rc && strcmp(sql, "snapshot") == 0) {
        rc = sfs_snapshot_take(env, r, stores, n, SFS_SNAPSHOT_HOURLY, 3, err);
        sfs_replicas_close(r);
        return rc;
    }
    if (!rc)
        rc = sfs_audit_open(env, r, &geometry, false, &a, err);
    if (!rc)
        rc = sfs_audit_exec(a, sql);
    if (!rc)
        rc = sfs_audit_exec(a, "COMMIT");
    sfs_audit_close(a);
    if (!rc)
        rc = sfs_replicas_recover(r, err); /* empties the log */
    sfs_replicas_close(r);
    return rc;
}

static int label_at(int fd, off_t at, const char *field, uint64_t value)
{
    static union {
        struct sfs_label_disk d;
        uint8_t bytes[SFS_LABEL_BYTES];
    } l;
    if (pread(fd, l.bytes, sizeof(l.bytes), at) != (ssize_t)sizeof(l.bytes) || memcmp(l.d.magic, SFS_LABEL_MAGIC, sizeof(l.d.magic)) != 0)
        return -1;
    if (strcmp(field, "format") == 0)
        l.d.format = htole32((uint32_t)value);
    else if (strcmp(field, "ro_compat") == 0)
        l.d.ro_compat = htole64(value);
    else if (strcmp(field, "incompat") == 0)
        l.d.incompat = htole64(value);
    else
        return -1;
    l.d.checksum = htole64(sfs_format_checksum(l.bytes, sizeof(l.bytes)));
    return pwrite(fd, l.bytes, sizeof(l.bytes), at) == (ssize_t)sizeof(l.bytes) ? 0 : -1;
}

static int poke_label(const char *path, const char *change)
{
    char field[16];
    unsigned value;
    struct stat st;
    int fd = sscanf(change, "%15[a-z_]=%u", field, &value) == 2 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    int rc = fd < 0 || fstat(fd, &st) < 0 ? -1 : 0;
    if (!rc)
        rc = label_at(fd, 0, field, value);
    if (!rc)
        rc = label_at(fd, (st.st_size & ~(off_t)4095) - (off_t)SFS_LABEL_BYTES, field, value);
    if (fd >= 0)
        close(fd);
    if (rc)
        fprintf(stderr, "poke: %s: %s can't be written\n", path, change);
    return rc;
}

int main(int argc, char **argv)
{
    struct sfs_env *env = sfs_env_new_real();
    struct sfs_disk *disks[MAX_DISKS] = {NULL};
    struct sfs_store stores[MAX_DISKS];
    struct sfs_error err = {0};
    struct sfs_disk_opts o = {.workers = 1};
    struct sfs_label *l = malloc(sizeof(*l));
    unsigned n = 0;
    if (argc > 3 && strcmp(argv[1], "label") == 0) {
        int failed = 0;
        for (int i = 3; i < argc; i++)
            failed |= poke_label(argv[i], argv[2]) != 0;
        free(l);
        sfs_env_free(env);
        return failed;
    }
    int rc = argc < 3 || !env || !l ? -EINVAL : 0;
    for (int i = 2; !rc && i < argc && n < MAX_DISKS; i++) {
        char *path = realpath(argv[i], NULL);
        rc = sfs_disk_open(env, path ? path : argv[i], &o, &disks[n], &err);
        free(path);
        if (rc)
            break;
        sfs_disk_label(disks[n], l);
        slab_bytes = l->slab_bytes;
        sfs_pool_store(disks[n], l->disk_name, (int)n + 1, &stores[n]);
        n++;
    }
    if (!rc)
        rc = poke(env, stores, n, argv[1], &err);
    if (rc)
        fprintf(stderr, "poke: %s (%d)\n", err.text, rc);
    for (unsigned i = 0; i < n; i++)
        sfs_disk_close(disks[i]);
    free(l);
    sfs_env_free(env);
    return rc != 0;
}
