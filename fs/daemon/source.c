#include "fs/daemon/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/disk/disk.h"
#include "fs/pool/registry.h"

static bool is_known(const char *pool)
{
    struct sfs_registry_pool known;
    char state_dir[SFS_PATH_BYTES];

    if (sfs_registry_state_dir(state_dir, sizeof(state_dir)) < 0 ||
        sfs_registry_load(state_dir, pool, &known) < 0)
        return false;
    sfs_registry_free(&known);
    return true;
}

static int by_path(struct sfs_env *env, const char *text, struct sfs_source *out, struct sfs_error *err)
{
    const char *last = strrchr(text, '/') + 1;
    struct sfs_disk_probe probe;
    struct sfs_error why = {0};
    int rc;

    if (!realpath(text, out->which))
        rc = sfs_error_set(&why, -errno, "%s: %s", text, strerror(errno));
    else
        rc = sfs_disk_probe(env, out->which, NULL, &probe, &why);
    if (rc == 0 && probe.has_label) {
        memcpy(out->pool, probe.label.pool_name, sizeof(out->pool));
        out->uuid = probe.label.pool_uuid;
        return 0;
    }
    /* mount(8) makes a path of a name that is also a file in the working directory. */
    if (sfs_name_check(last, "pool", NULL) == 0 && is_known(last)) {
        snprintf(out->which, sizeof(out->which), "%s", last);
        snprintf(out->pool, sizeof(out->pool), "%s", last);
        return 0;
    }
    if (rc == 0 && probe.label_rc == -EOPNOTSUPP)
        return sfs_error_set(err, -EOPNOTSUPP, "%s was written by a newer spacesfs. Update this one.", text);
    if (rc == 0 && probe.label_rc == -EUCLEAN)
        return sfs_error_set(err, -EUCLEAN,
                             "%s: its label is damaged, in both copies. Name another disk of the pool; the pool mends this one.",
                             text);
    if (rc == 0 && probe.label_rc != -ENOENT)
        return sfs_error_set(err, probe.label_rc, "%s: its label can't be read: %s", text,
                             strerror(-probe.label_rc));
    if (rc < 0 && rc != -ENOENT)
        return sfs_error_set(err, rc, "%s", why.text);
    return sfs_error_set(err, -ENOENT, "%s is no disk of a pool, and no pool is known by that name%s", text,
                         rc == 0 ? "" : " (there is nothing at this path)");
}

int sfs_source_which(struct sfs_env *env, const char *text, struct sfs_source *out, struct sfs_error *err)
{
    int rc;

    out->uuid = (struct sfs_uuid){{0}};
    if (strlen(text) >= PATH_MAX)
        return sfs_error_set(err, -ENAMETOOLONG, "the name of the pool is too long");
    if (strchr(text, '/'))
        return by_path(env, text, out, err);
    rc = sfs_name_check(text, "pool", err);
    if (rc < 0)
        return rc;
    snprintf(out->which, sizeof(out->which), "%s", text);
    snprintf(out->pool, sizeof(out->pool), "%s", text);
    return 0;
}

int sfs_source_resolve(struct sfs_env *env, const char *source, struct sfs_source *out, struct sfs_error *err)
{
    const char *slash = strrchr(source, '/');
    char which[PATH_MAX];
    int rc;

    if (strlen(source) >= sizeof(out->given))
        return sfs_error_set(err, -EINVAL, "the source is too long");
    if (!slash || slash == source || slash[1] == '\0')
        return sfs_error_set(err, -EINVAL,
                             "\"%s\" is not of the form POOL/SPACE or DISK/SPACE (see mount.spacesfs(8))",
                             source);
    rc = sfs_name_check(slash + 1, "space", err);
    if (rc < 0)
        return rc;
    snprintf(out->given, sizeof(out->given), "%s", source);
    snprintf(out->space, sizeof(out->space), "%s", slash + 1);
    memcpy(which, source, (size_t)(slash - source));
    which[slash - source] = '\0';
    rc = sfs_source_which(env, which, out, err);
    if (rc < 0)
        return rc;
    /* The name that mount(8) had made a path of: what fstab says is the name. */
    if (strchr(which, '/') && !strchr(out->which, '/'))
        snprintf(out->given, sizeof(out->given), "%s/%s", out->pool, out->space);
    return 0;
}
