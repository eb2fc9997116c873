#include "cli/scan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/mounts.h"
#include "cli/ui.h"

static bool seen(const struct sfs_scan *s, const struct sfs_disk_probe *probe)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (s->disks[i]->probe.dev == probe->dev && s->disks[i]->probe.ino == probe->ino)
            return true;
    }
    return false;
}

static void keep(struct sfs_scan *s, const char *path, const struct sfs_disk_probe *probe)
{
    struct sfs_scan_disk **more = realloc(s->disks, (s->n + 1) * sizeof(struct sfs_scan_disk *));
    struct sfs_scan_disk *disk = malloc(sizeof(*disk));
    if (!more || !disk)
        sfs_ui_out_of_memory();
    disk->path = realpath(path, NULL);
    if (!disk->path)
        disk->path = strdup(path);
    if (!disk->path)
        sfs_ui_out_of_memory();
    disk->probe = *probe;
    s->disks = more;
    s->disks[s->n++] = disk;
}

/* 1: a disk of a pool (of that pool, when given), kept; 0: something else; -errno with words. */
static int look_at(struct sfs_cli *c, struct sfs_scan *s, const char *path, const struct sfs_uuid *pool,
                   struct sfs_error *err)
{
    struct sfs_disk_probe *probe = malloc(sizeof(*probe));
    if (!probe)
        sfs_ui_out_of_memory();
    int rc = sfs_disk_probe(c->env, path, NULL, probe, err);
    if (rc == 0 && probe->has_label && !seen(s, probe) &&
        (!pool || sfs_uuid_equal(pool, &probe->label.pool_uuid)))
        keep(s, path, probe);
    if (rc == 0)
        rc = probe->has_label ? 1 : 0;
    if (rc == 0 && probe->label_rc == -EUCLEAN)
        rc = sfs_error_set(err, -EUCLEAN,
                           "%s: it bears a label of spacesfs, but a damaged one. The pool can be found from "
                           "its other disks.",
                           path);
    else if (rc == 0 && probe->label_rc == -EOPNOTSUPP)
        rc = sfs_error_set(err, -EOPNOTSUPP, "%s was written by a newer spacesfs. Update this one.", path);
    free(probe);
    return rc;
}

static void look_inside(struct sfs_cli *c, struct sfs_scan *s, const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    while (d && (entry = readdir(d))) {
        char path[SFS_PATH_BYTES];
        struct stat st;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= (int)sizeof(path) || stat(path, &st))
            continue;
        if ((S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)) &&
            look_at(c, s, path, NULL, NULL) < 0)
            s->unreadable++;
    }
    if (d)
        closedir(d);
}

int sfs_scan_path(struct sfs_cli *c, struct sfs_scan *s, const char *path, struct sfs_error *err)
{
    struct stat st;
    int rc = look_at(c, s, path, NULL, err);
    if (rc > 0)
        return 0;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) { /* also one that couldn't serve as a disk */
        look_inside(c, s, path);
        return 0;
    }
    return rc;
}

void sfs_scan_hint(struct sfs_cli *c, struct sfs_scan *s, const char *path, const struct sfs_uuid *pool)
{
    look_at(c, s, path, pool, NULL);
}

static void scan_devices(struct sfs_cli *c, struct sfs_scan *s)
{
    FILE *f = fopen("/proc/partitions", "re");
    char line[256], name[128], path[160];
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*u %*u %*u %127s", name) != 1)
            continue;
        for (char *p = name; *p; p++) /* "cciss!c0d0" is /dev/cciss/c0d0 */
            *p = *p == '!' ? '/' : *p;
        snprintf(path, sizeof(path), "/dev/%s", name);
        if (access(path, F_OK) == 0 && look_at(c, s, path, NULL, NULL) < 0)
            s->unreadable++;
    }
    if (f)
        fclose(f);
}

static int scan_mount(const struct sfs_cli_mount *m, void *ctx)
{
    void **both = ctx;
    char label[SFS_PATH_BYTES];
    if (!strcmp(m->type, "fuse.spacesfs") ||
        snprintf(label, sizeof(label), "%s/.spacesfs/label", m->dir) >= (int)sizeof(label))
        return 0;
    if (access(label, F_OK) == 0 && look_at(both[0], both[1], m->dir, NULL, NULL) < 0)
        ((struct sfs_scan *)both[1])->unreadable++;
    return 0;
}

void sfs_scan_host(struct sfs_cli *c, struct sfs_scan *s)
{
    void *both[2] = {c, s};
    scan_devices(c, s);
    sfs_cli_mounts_each(scan_mount, both);
}

void sfs_scan_free(struct sfs_scan *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        free(s->disks[i]->path);
        free(s->disks[i]);
    }
    free(s->disks);
}
