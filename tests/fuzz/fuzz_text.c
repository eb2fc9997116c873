/* What people type, and lines of the kernel's: sizes, durations, names, mount options, mountinfo. The first byte chooses. */
#include "tests/fuzz/fuzz.h"

#include "fs/base/size.h"
#include "fs/daemon/daemon.h"
#include "fs/daemon/mountinfo.h"
#include "fs/layout/geometry.h"

static void size(const char *text)
{
    struct sfs_error err = {0};
    uint64_t v, again;
    char shown[16];
    int rc = sfs_size_parse(text, "--size", &v, &err);
    FUZZ_CHECK(rc == 0 || err.text[0]);
    if (rc)
        return;
    FUZZ_CHECK(v <= INT64_MAX);
    sfs_size_format(v, shown);
    FUZZ_CHECK(memchr(shown, '\0', sizeof(shown)) && sfs_size_parse(shown, "--size", &again, &err) == 0);
}

static void name(const char *text)
{
    struct sfs_error err = {0};
    int rc = sfs_name_check(text, "pool", &err);
    FUZZ_CHECK(rc == 0 || err.text[0]);
    FUZZ_CHECK(rc || (strlen(text) <= 64 && !strpbrk(text, "/ \n\t\033") && text[0] != '.' && text[0] != '-'));
}

static void options(const char *text)
{
    struct sfs_error err = {0};
    struct sfs_mount_opts o;
    int rc = sfs_mount_opts_parse(text, false, &o, &err);
    FUZZ_CHECK(rc == 0 || err.text[0]);
    FUZZ_CHECK(rc || (o.nodev && o.nosuid)); /* what users can't do away with */
}

static void mountinfo(const char *text)
{
    struct sfs_mountinfo m;
    if (sfs_mountinfo_parse(text, &m))
        FUZZ_CHECK(m.dir[0] == '/' && memchr(m.dir, '\0', sizeof(m.dir)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct sfs_error err = {0};
    enum sfs_resiliency r;
    uint64_t ns;
    if (!len)
        return 0;
    char *text = fuzz_text(data + 1, len - 1);
    switch (data[0] % 6) {
    case 0:
        size(text);
        break;
    case 1:
        FUZZ_CHECK(sfs_duration_parse(text, "wait", &ns, &err) == 0 || err.text[0]);
        break;
    case 2:
        name(text);
        break;
    case 3:
        options(text);
        break;
    case 4:
        mountinfo(text);
        break;
    default:
        FUZZ_CHECK(sfs_resiliency_parse(text, &r, &err) == 0 || err.text[0]);
    }
    free(text);
    return 0;
}
