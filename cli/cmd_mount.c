/* spacesfs mount, umount, fstab. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/request.h"
#include "cli/ui.h"
#include "fs/daemon/daemon.h"

int sfs_cmd_mount(struct sfs_cli *c)
{
    struct sfs_mount_opts opts;
    struct sfs_error err = {0};
    const char *options = sfs_cli_value(c, "options");
    char which[SFS_PATH_BYTES], space[SFS_NAME_MAX + 1];
    options = options ? options : "";
    if (sfs_target_split(c->args[0], which, sizeof(which), space, &err))
        return sfs_cli_usage(c, "%s", err.text);
    memset(&opts, 0, sizeof(opts));
    if (sfs_mount_opts_parse(options, geteuid() == 0, &opts, &err))
        return sfs_cli_usage(c, "%s", err.text);
    if (!opts.fsname[0])
        snprintf(opts.fsname, sizeof(opts.fsname), "%s", c->args[0]);
    /* The helper speaks for itself, in mount(8)'s exit codes. */
    return sfs_mount_main(c->args[0], c->args[1], &opts, options, sfs_cli_flag(c, "verbose"))
               ? SFS_EXIT_FAILED
               : SFS_EXIT_OK;
}

int sfs_cmd_umount(struct sfs_cli *c)
{
    return sfs_umount_main(c->args[0], sfs_cli_flag(c, "lazy"), sfs_cli_flag(c, "force")) ? SFS_EXIT_FAILED
                                                                                          : SFS_EXIT_OK;
}

/* --- fstab ----------------------------------------------------------------------------------------------- */
/* A field of /etc/fstab: blanks and backslashes as octal. */
static void print_field(const char *text)
{
    for (; *text; text++) {
        if (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\\')
            printf("\\%03o", (unsigned)(unsigned char)*text);
        else
            putchar(*text);
    }
}

/* The directory that must be there before the disk can be: its own, or that of its image file; "" for a block
 * device, which the mount waits for by itself. */
static void needed_dir(const json_t *disk, char dir[SFS_PATH_BYTES])
{
    struct stat st;
    snprintf(dir, SFS_PATH_BYTES, "%s", sfs_json_text(disk, "path"));
    if (dir[0] != '/' || !strncmp(dir, "/dev/", 5) || (stat(dir, &st) == 0 && S_ISBLK(st.st_mode)))
        dir[0] = '\0';
    else if (!strcmp(sfs_json_text(disk, "kind"), "image") && strrchr(dir, '/') != dir)
        *strrchr(dir, '/') = '\0';
}

/* Has systemd mount first what the disks lie on. */
static void print_requirements(const json_t *status, const char *mount_dir)
{
    const json_t *disks = sfs_json_array(status, "disks");
    char dir[SFS_PATH_BYTES], other[SFS_PATH_BYTES], text[2 * SFS_PATH_BYTES + 100];
    size_t i, k, len = strlen(mount_dir);
    json_t *disk;
    json_array_foreach(disks, i, disk)
    {
        bool before = false;
        needed_dir(disk, dir);
        for (k = 0; k < i && !before; k++) {
            needed_dir(json_array_get(disks, k), other);
            before = !strcmp(dir, other);
        }
        if (!dir[0] || before)
            continue;
        if (!strncmp(dir, mount_dir, len) && (dir[len] == '/' || !dir[len])) {
            snprintf(text, sizeof(text),
                     "disk %s lies in %s, which this mount would hide. Mount the space on another directory.",
                     sfs_json_text(disk, "name"), dir);
            sfs_ui_warning(text);
        } else if (strpbrk(dir, ",\"")) {
            snprintf(text, sizeof(text),
                     "%s: systemd can't be told to wait for a path with a comma or a quote in it.", dir);
            sfs_ui_warning(text);
        } else {
            printf(",x-systemd.requires-mounts-for=");
            print_field(dir);
        }
    }
}

static bool has_space(const json_t *status, const char *name)
{
    size_t i;
    json_t *space;
    json_array_foreach(sfs_json_array(status, "spaces"), i, space)
    {
        if (!strcmp(sfs_json_text(space, "name"), name))
            return true;
    }
    return false;
}

int sfs_cmd_fstab(struct sfs_cli *c)
{
    struct sfs_mount_opts opts;
    struct sfs_error err = {0};
    char which[SFS_PATH_BYTES], space[SFS_NAME_MAX + 1], text[1200];
    const char *options = sfs_cli_value(c, "options");
    options = options && *options ? options : "defaults";
    if (sfs_target_split(c->args[0], which, sizeof(which), space, &err) ||
        sfs_mount_opts_parse(options, true, &opts, &err))
        return sfs_cli_usage(c, "%s", err.text);
    char *dir = realpath(c->args[1], NULL);
    if (!dir && c->args[1][0] != '/')
        return sfs_cli_usage(c, "%s: there is no such directory here; give its absolute path.", c->args[1]);
    json_t *status = sfs_request(c, which, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (status && !has_space(status, space)) {
        sfs_ui_error("%s: pool %s has no such space. `spacesfs space list %s` shows those there are.", space,
                     sfs_json_text(status, "pool"), which);
        json_decref(status);
        status = NULL;
    }
    if (!status) {
        free(dir);
        return SFS_EXIT_FAILED;
    }
    if (!dir) {
        snprintf(text, sizeof(text), "%s: there is no such directory yet.", c->args[1]);
        sfs_ui_warning(text);
    }
    print_field(sfs_json_text(status, "pool"));
    printf("/%s  ", space);
    print_field(dir ? dir : c->args[1]);
    printf("  fuse.spacesfs  ");
    print_field(options);
    print_requirements(status, dir ? dir : c->args[1]);
    printf("  0 0\n");
    json_decref(status);
    free(dir);
    return SFS_EXIT_OK;
}
