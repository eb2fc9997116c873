/* workload DIR NAME SCALE: does one piece of work in DIR and prints "SECONDS AMOUNT UNIT". What is prepared for it, and what is cleaned up behind it, isn't
 * measured. Data is random, so that nobody gains by compressing it. */
#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIB (1u << 20)

static uint8_t block[MIB];
static uint64_t state = 88172645463325252u;
static double scale;

static uint64_t rnd(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void must(int64_t rc, const char *what)
{
    if (rc < 0)
        error(1, errno, "%s", what);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void renew(void)
{
    uint64_t *words = (uint64_t *)(void *)block;
    for (size_t i = 0; i < sizeof(block) / 64; i++) /* enough to make each MiB another */
        words[i * 8] = rnd();
}

static unsigned file_mib(void)
{
    return (unsigned)(512 * scale) + 1;
}

static void write_file(void)
{
    int fd = open("big", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd, "big");
    for (unsigned i = 0; i < file_mib(); i++) {
        renew();
        must(write(fd, block, MIB), "write");
    }
    must(fsync(fd), "fsync");
    must(close(fd), "close");
}

/* Asks the kernel to forget what it holds of a file; as root of everything. */
static void forget(void)
{
    sync();
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
    if (fd >= 0) {
        must(write(fd, "3", 1), "drop_caches");
        close(fd);
    }
    fd = open("big", O_RDONLY);
    if (fd >= 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

static void read_sequential(void)
{
    int fd = open("big", O_RDONLY);
    must(fd, "big");
    while (read(fd, block, MIB) > 0)
        ;
    close(fd);
}

static unsigned random_ops(void)
{
    return (unsigned)(16384 * scale) + 1;
}

static void random_io(int writing, unsigned ops, int sync_each)
{
    int fd = open("big", O_RDWR);
    must(fd, "big");
    for (unsigned i = 0; i < ops; i++) {
        off_t at = (off_t)(rnd() % (file_mib() * 256u)) * 4096;
        block[rnd() % 4096] ^= 1;
        must(writing ? pwrite(fd, block, 4096, at) : pread(fd, block, 4096, at), "random");
        if (sync_each)
            must(fdatasync(fd), "fdatasync");
    }
    must(fsync(fd), "fsync");
    close(fd);
}

static unsigned nfiles(void)
{
    return (unsigned)(5000 * scale) + 1;
}

static void name_of(char out[64], unsigned i)
{
    snprintf(out, 64, "small/%u/f%u", i / 500, i);
}

static void create_files(void)
{
    char name[64];
    must(mkdir("small", 0755), "mkdir");
    for (unsigned i = 0; i < nfiles(); i++) {
        snprintf(name, sizeof(name), "small/%u", i / 500);
        if (i % 500 == 0)
            must(mkdir(name, 0755), "mkdir");
        name_of(name, i);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
        must(fd, name);
        must(write(fd, block, 100 + rnd() % 8000), "write");
        close(fd);
    }
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    must(syncfs(fd), "syncfs");
    close(fd);
}

static void stat_files(void)
{
    char name[64];
    struct stat st;
    for (unsigned i = 0; i < nfiles(); i++) {
        name_of(name, (unsigned)(rnd() % nfiles()));
        must(stat(name, &st), "stat");
    }
}

static void read_files(void)
{
    char name[64];
    for (unsigned i = 0; i < nfiles(); i++) {
        name_of(name, i);
        int fd = open(name, O_RDONLY);
        must(fd, name);
        must(read(fd, block, MIB), "read");
        close(fd);
    }
}

static void remove_files(void)
{
    char name[64];
    for (unsigned i = 0; i < nfiles(); i++) {
        name_of(name, i);
        must(unlink(name), "unlink");
    }
    for (unsigned i = 0; i < nfiles(); i += 500) {
        snprintf(name, sizeof(name), "small/%u", i / 500);
        must(rmdir(name), "rmdir");
    }
    must(rmdir("small"), "rmdir");
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    must(syncfs(fd), "syncfs");
    close(fd);
}

static void measure(void (*work)(void), double amount, const char *unit)
{
    double start = now();
    work();
    printf("%.6f %.0f %s\n", now() - start, amount, unit);
}

static void random_write(void) { random_io(1, random_ops(), 0); }
static void random_read(void) { random_io(0, random_ops(), 0); }
static void random_write_sync(void) { random_io(1, random_ops() / 32 + 1, 1); }

int main(int argc, char **argv)
{
    if (argc != 4 || chdir(argv[1]) < 0)
        error(2, errno, "usage: workload DIR NAME SCALE");
    const char *name = argv[2];
    scale = atof(argv[3]);
    for (size_t i = 0; i < sizeof(block) / 8; i++)
        ((uint64_t *)(void *)block)[i] = rnd();
    if (!strcmp(name, "write")) {
        measure(write_file, file_mib(), "MiB");
    } else if (!strcmp(name, "read")) {
        forget();
        measure(read_sequential, file_mib(), "MiB");
    } else if (!strcmp(name, "random-write")) {
        measure(random_write, random_ops(), "ops");
    } else if (!strcmp(name, "random-read")) {
        forget();
        measure(random_read, random_ops(), "ops");
    } else if (!strcmp(name, "random-write-sync")) {
        measure(random_write_sync, random_ops() / 32 + 1, "ops");
    } else if (!strcmp(name, "create")) {
        measure(create_files, nfiles(), "files");
    } else if (!strcmp(name, "stat")) {
        forget();
        measure(stat_files, nfiles(), "files");
    } else if (!strcmp(name, "read-small")) {
        forget();
        measure(read_files, nfiles(), "files");
    } else if (!strcmp(name, "remove")) {
        measure(remove_files, nfiles(), "files");
    } else {
        error(2, 0, "there is no workload %s", name);
    }
    return 0;
}
