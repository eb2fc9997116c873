/* What an umount helper does: the daemon unmounts and stores; a mount whose daemon is dead is only taken
 * away. */
#include "fs/daemon/daemon.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/daemon/client.h"
#include "fs/daemon/mountinfo.h"
#include "fs/fuse/fuse.h"
#include "fs/pool/registry.h"

#define EXIT_OK 0
#define EXIT_SYSTEM 2
#define EXIT_FAILED 32
/* How long to wait for a daemon that has unmounted its last space to close the pool. */
#define END_WAIT_MS 120000

static int say(const char *words, int code)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, words);
    return code;
}

/* Through the daemon behind fd. */
static int ask(int fd, const char *dir, bool lazy, struct sfs_error *err)
{
    json_t *request = json_pack("{s:s, s:s, s:b}", "cmd", "umount", "dir", dir, "lazy", (int)lazy),
           *reply = NULL;
    const char *warning;
    int rc;

    if (!request)
        return sfs_error_set(err, -EILSEQ, "the mountpoint is not valid UTF-8");
    rc = sfs_client_request(fd, request, NULL, NULL, &reply);
    json_decref(request);
    if (rc < 0)
        return sfs_error_set(err, rc, "the daemon ended while it unmounted %s: %s", dir, strerror(-rc));
    rc = sfs_client_result(reply, err);
    warning = json_string_value(json_object_get(reply, "warning"));
    if (rc == 0 && warning)
        say(warning, 0);
    if (rc == 0 && json_is_true(json_object_get(json_object_get(reply, "result"), "last")))
        sfs_client_wait_end(fd, END_WAIT_MS);
    json_decref(reply);
    return rc;
}

int sfs_umount_main(const char *dir, bool lazy, bool force)
{
    char path[PATH_MAX], run_dir[SFS_PATH_BYTES];
    struct sfs_error err = {0};
    struct sfs_mountinfo m;
    int fd, rc;

    rc = sfs_canonical_dir(dir, path);
    if (rc == 0)
        rc = sfs_mountinfo_at(path, &m);
    if (rc < 0) {
        sfs_error_set(&err, rc, "%s: %s", dir, rc == -ENOENT ? "not mounted" : strerror(-rc));
        return say(err.text, EXIT_FAILED);
    }
    if (strcmp(m.type, SFS_FUSE_TYPE) != 0) {
        sfs_error_set(&err, -EINVAL, "%s is not a mount of spacesfs but of %s", path, m.type);
        return say(err.text, EXIT_FAILED);
    }
    if (sfs_registry_run_dir(run_dir, sizeof(run_dir), &err) < 0)
        return say(err.text, EXIT_SYSTEM);
    fd = sfs_client_find_mount(run_dir, path);
    if (fd >= 0) {
        rc = ask(fd, path, lazy, &err);
        close(fd);
        if (rc < 0)
            return say(err.text, EXIT_FAILED);
        /* A daemon in another mount namespace has unmounted it there. */
        if (sfs_mountinfo_at(path, &m) == 0 && strcmp(m.type, SFS_FUSE_TYPE) == 0 && sfs_is_dead_mount(path))
            sfs_fuse_unmount_dir(path, true);
        return EXIT_OK;
    }
    /* Its daemon is dead, or somebody else's: then the kernel says whether we may, and we cannot wait until
     * that one has stored everything. */
    rc = sfs_fuse_unmount_dir(path, lazy || force || sfs_is_dead_mount(path));
    if (rc < 0) {
        sfs_error_set(&err, rc, "%s cannot be unmounted: %s", path,
                      rc == -EPERM    ? "that is for who mounted it, or root"
                      : rc == -ENOENT ? "fusermount3 is not installed"
                      : rc == -EBUSY  ? "a program has files open there, or works there (fuser -vm shows which)"
                                      : strerror(-rc));
        return say(err.text, EXIT_FAILED);
    }
    return EXIT_OK;
}
