/* bigfile write|check FILE BYTES SEED: writes a large file whose every eight bytes differ, or compares one with what was written. write prints what it could write
 * when the space is full (exit 3). */
#include "tests/mount/stream.h"

#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };
static uint64_t words[CHUNK / 8], back[CHUNK / 8];

static void fill(uint64_t seed, uint64_t off)
{
    for (uint64_t i = 0; i < CHUNK / 8; i++)
        words[i] = stream_word(seed, off / 8 + i);
}

static void write_all(int fd, const char *file, uint64_t size, uint64_t seed)
{
    for (uint64_t off = 0; off < size;) {
        size_t len = size - off < CHUNK ? size - off : CHUNK, done = 0;
        fill(seed, off);
        while (done < len) {
            ssize_t n = write(fd, (uint8_t *)words + done, len - done);
            if (n < 0 && errno == ENOSPC) {
                printf("%llu\n", (unsigned long long)(off + done));
                exit(3);
            }
            if (n <= 0)
                error(1, errno, "%s: write at %llu", file, (unsigned long long)(off + done));
            done += (size_t)n;
        }
        off += len;
    }
    if (fsync(fd) < 0)
        error(1, errno, "%s: fsync", file);
    if (close(fd) < 0)
        error(1, errno, "%s: close", file);
}

static void check_all(int fd, const char *file, uint64_t size, uint64_t seed)
{
    uint64_t off = 0;
    for (ssize_t n; off < size; off += (uint64_t)n) {
        size_t len = size - off < CHUNK ? size - off : CHUNK;
        n = pread(fd, back, len, (off_t)off);
        if (n <= 0 || (off + (uint64_t)n < size && n % 8))
            error(1, errno, "%s: read of %zu at %llu gives %zd", file, len, (unsigned long long)off, n);
        fill(seed, off);
        if (memcmp(words, back, (size_t)n))
            error(1, 0, "%s: differs between %llu and %llu", file, (unsigned long long)off, (unsigned long long)off + (unsigned long long)n);
    }
    if (pread(fd, back, 1, (off_t)off) != 0)
        error(1, 0, "%s: goes on behind %llu", file, (unsigned long long)off);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        error(2, 0, "usage: bigfile write|check FILE BYTES SEED");
    int check = !strcmp(argv[1], "check");
    int fd = check ? open(argv[2], O_RDONLY) : open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        error(1, errno, "%s", argv[2]);
    uint64_t size = strtoull(argv[3], NULL, 10), seed = strtoull(argv[4], NULL, 10);
    if (check)
        check_all(fd, argv[2], size, seed);
    else
        write_all(fd, argv[2], size, seed);
    return 0;
}
