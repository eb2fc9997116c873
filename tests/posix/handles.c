/* handles make DIR FILE | handles check DIR FILE: file handles as an NFS server uses them. `make` opens
 * everything below DIR by name and writes handles and inode numbers to FILE; `check`, perhaps after the
 * daemon has been restarted, opens them by handle and compares. Those of files that are gone must be stale.
 */
#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct record {
    struct stat st;
    char name[256], contents[64];
    unsigned bytes;
    int type;
    unsigned char handle[MAX_HANDLE_SZ];
};

static void read_some(int fd, char *out, size_t cap)
{
    memset(out, 0, cap);
    if (pread(fd, out, cap, 0) < 0 && errno != EISDIR)
        error(1, errno, "reading");
}

static void make(const char *dir, const char *file)
{
    FILE *out = fopen(file, "w");
    DIR *d = opendir(dir);

    if (!out || !d)
        error(1, errno, "%s", out ? dir : file);
    for (struct dirent *e; (e = readdir(d));) {
        struct record r = {.bytes = MAX_HANDLE_SZ};
        union {
            struct file_handle h;
            char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
        } u = {.h.handle_bytes = MAX_HANDLE_SZ};
        int mount_id;
        if (strcmp(e->d_name, "..") == 0)
            continue;
        if (name_to_handle_at(dirfd(d), e->d_name, &u.h, &mount_id, 0) < 0)
            error(1, errno, "%s: no handle", e->d_name);
        if (fstatat(dirfd(d), e->d_name, &r.st, AT_SYMLINK_NOFOLLOW) < 0)
            error(1, errno, "%s", e->d_name);
        snprintf(r.name, sizeof(r.name), "%s", e->d_name);
        r.bytes = u.h.handle_bytes;
        r.type = u.h.handle_type;
        memcpy(r.handle, u.h.f_handle, r.bytes);
        if (S_ISREG(r.st.st_mode)) {
            int fd = openat(dirfd(d), e->d_name, O_RDONLY);
            read_some(fd, r.contents, sizeof(r.contents));
            close(fd);
        }
        if (fwrite(&r, sizeof(r), 1, out) != 1)
            error(1, errno, "%s", file);
    }
    closedir(d);
    if (fclose(out) != 0)
        error(1, errno, "%s", file);
}

/* 0: found as it was; 1: stale. */
static int check_one(int mount, const struct record *r)
{
    union {
        struct file_handle h;
        char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } u = {.h = {.handle_bytes = r->bytes, .handle_type = r->type}};
    char contents[sizeof(r->contents)];
    struct stat st;
    int fd;

    memcpy(u.h.f_handle, r->handle, r->bytes);
    fd = open_by_handle_at(mount, &u.h, S_ISREG(r->st.st_mode) || S_ISDIR(r->st.st_mode) ? O_RDONLY : O_PATH);
    if (fd < 0) {
        if (errno != ESTALE)
            error(1, errno, "%s: opening it by handle", r->name);
        return 1;
    }
    if (fstat(fd, &st) < 0 || st.st_ino != r->st.st_ino || st.st_mode != r->st.st_mode ||
        st.st_size != r->st.st_size)
        error(1, 0, "%s: the handle opens something else", r->name);
    if (S_ISREG(st.st_mode)) {
        read_some(fd, contents, sizeof(contents));
        if (memcmp(contents, r->contents, sizeof(contents)) != 0)
            error(1, 0, "%s: other contents by handle", r->name);
    }
    close(fd);
    return 0;
}

static void check(const char *dir, const char *file)
{
    int mount = open(dir, O_RDONLY | O_DIRECTORY);
    FILE *in = fopen(file, "r");
    struct record r;
    unsigned good = 0, stale = 0;

    if (mount < 0 || !in)
        error(1, errno, "%s", mount < 0 ? dir : file);
    while (fread(&r, sizeof(r), 1, in) == 1) {
        if (check_one(mount, &r))
            stale++;
        else
            good++;
    }
    fclose(in);
    printf("%u good, %u stale\n", good, stale);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "make") == 0)
        make(argv[2], argv[3]);
    else if (argc == 4 && strcmp(argv[1], "check") == 0)
        check(argv[2], argv[3]);
    else
        error(2, 0, "usage: handles make|check DIR FILE");
    return 0;
}
