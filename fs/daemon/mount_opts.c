/* Mount options: a comma list from fstab, mount(8) or the command line, where the last of contradicting words
 * wins. What mount(8) keeps to itself, what it hands on from the kernel at a remount, and what asks for our
 * default is passed over; any other word is an error, so that a misspelt one isn't silently ignored. */
#include "fs/daemon/daemon.h"

#include <stdio.h>
#include <string.h>

#include "fs/base/size.h"

#define WAIT_DEFAULT_NS (30ull * 1000000000ull)

struct flag {
    const char *word;
    size_t field; /* offset of a bool in struct sfs_mount_opts */
    bool value;
};
#define FLAG(word, field, value)                                                                             \
    {                                                                                                        \
        word, offsetof(struct sfs_mount_opts, field), value                                                  \
    }

static const struct flag flags[] = {
    FLAG("ro", readonly, true),       FLAG("rw", readonly, false),    FLAG("noatime", noatime, true),
    FLAG("relatime", noatime, false), FLAG("remount", remount, true), FLAG("nofail", nofail, true),
    FLAG("nodev", nodev, true),       FLAG("dev", nodev, false),      FLAG("nosuid", nosuid, true),
    FLAG("suid", nosuid, false),      FLAG("noexec", noexec, true),   FLAG("exec", noexec, false),
    FLAG("sync", sync, true),         FLAG("async", sync, false),     FLAG("allow_other", allow_other, true),
};

/* Words that ask for nothing, with '=' those that have a value. */
static const char *const ignored[] = {
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "fail",
    "_netdev",
    "nodiratime",
    "diratime",
    "nostrictatime",
    "nolazytime",
    "noiversion",
    "nomand",
    "loud",
    "silent",
    "nodirsync",
    "default_permissions",
    "user=",
    "comment=",
    "uhelper=",
    "helper=",
    "fsname=",
    "subtype=",
    /* what the kernel shows, given again at a remount */
    "fd=",
    "rootmode=",
    "user_id=",
    "group_id=",
    "max_read=",
    "blksize=",
};

static bool is_ignored(const char *word)
{
    if (strncmp(word, "x-", 2) == 0 || strncmp(word, "X-", 2) == 0)
        return true;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        size_t len = strlen(ignored[i]);

        if (ignored[i][len - 1] == '=' ? strncmp(word, ignored[i], len) == 0 : strcmp(word, ignored[i]) == 0)
            return true;
    }
    return false;
}

static bool set_flag(const char *word, struct sfs_mount_opts *out)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (strcmp(word, flags[i].word) == 0) {
            *(bool *)((char *)out + flags[i].field) = flags[i].value;
            return true;
        }
    return false;
}

static int set_degraded(const char *value, struct sfs_mount_opts *out, struct sfs_error *err)
{
    if (strcmp(value, "yes") == 0)
        out->degraded = SFS_DEGRADED_YES;
    else if (strcmp(value, "ro") == 0)
        out->degraded = SFS_DEGRADED_RO;
    else if (strcmp(value, "no") == 0)
        out->degraded = SFS_DEGRADED_NO;
    else if (strcmp(value, "rw") == 0)
        out->degraded = SFS_DEGRADED_RW;
    else
        return sfs_error_set(err, -EINVAL, "mount option degraded=%s: it is one of yes, ro, no, rw", value);
    return 0;
}

static int set_word(const char *word, struct sfs_mount_opts *out, struct sfs_error *err)
{
    if (*word == '\0' || set_flag(word, out) || is_ignored(word))
        return 0;
    if (strncmp(word, "degraded=", 9) == 0)
        return set_degraded(word + 9, out, err);
    if (strcmp(word, "degraded") == 0)
        return set_degraded("yes", out, err);
    if (strncmp(word, "wait=", 5) == 0)
        return sfs_duration_parse(word + 5, "mount option wait", &out->wait_ns, err);
    return sfs_error_set(err, -EINVAL, "unknown mount option \"%s\" (see mount.spacesfs(8))", word);
}

int sfs_mount_opts_parse(const char *options, bool is_root, struct sfs_mount_opts *out, struct sfs_error *err)
{
    *out = (struct sfs_mount_opts){
        .degraded = SFS_DEGRADED_YES,
        .wait_ns = WAIT_DEFAULT_NS,
        .allow_other = is_root,
        .default_permissions = true,
        /* What the kernel insists on for users. */
        .nodev = !is_root,
        .nosuid = !is_root,
    };
    while (options && *options) {
        size_t len = strcspn(options, ",");
        char word[256];
        int rc;

        if (len >= sizeof(word))
            return sfs_error_set(err, -EINVAL, "a mount option is too long: \"%.40s…\"", options);
        memcpy(word, options, len);
        word[len] = '\0';
        rc = set_word(word, out, err);
        if (rc < 0)
            return rc;
        options += len + (options[len] == ',');
    }
    if (!is_root)
        out->nodev = out->nosuid = true;
    return 0;
}
