/* What the conformance cases share: checks that go on after a failure and name line and errno, other users, and a list
 * of cases that every file adds its own to. */
#ifndef TESTS_POSIX_CASE_H
#define TESTS_POSIX_CASE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every case runs in a directory of its own, empty at first, with umask 022. */
#define CASE(name)                                                                                           \
    static void name(void);                                                                                  \
    __attribute__((constructor)) static void add_##name(void)                                                \
    {                                                                                                        \
        static struct test_case c = {#name, __FILE__, name, NULL};                                           \
        case_add(&c);                                                                                        \
    }                                                                                                        \
    static void name(void)
struct test_case {
    const char *name, *file;
    void (*run)(void);
    struct test_case *next;
};
void case_add(struct test_case *c);

void broken(const char *file, int line, const char *what);
#define CHECK(cond) ((cond) ? (void)0 : broken(__FILE__, __LINE__, #cond))
#define FAILS(call, code)                                                                                    \
    (errno = 0, (call) == -1 && errno == (code)                                                              \
         ? (void)0                                                                                           \
         : broken(__FILE__, __LINE__, #call " should fail with " #code))

/* Is the directory under test FUSE? (What FUSE forbids is asked of others all the same.) */
bool on_fuse(void);
bool is_root(void);

/* Runs fn in a process of that user, with up to two supplementary groups (0: none); what it breaks counts. */
void as_user(uid_t uid, gid_t gid, gid_t extra1, gid_t extra2, void (*fn)(void));
/* Runs fn in a process of its own. */
void in_child(void (*fn)(void));

void put_file(const char *name, const void *data, size_t len); /* made or emptied, 0644 */
bool file_is(const char *name, const void *data, size_t len);
void fill(void *out, size_t len, unsigned seed);               /* bytes that tell seed and place */
bool all_zero(const void *p, size_t len);
struct stat stat_of(const char *name);                         /* lstat; nlink 0: there is none */
mode_t mode_of(const char *name);                              /* 07777 of it */
unsigned count_entries(const char *dir);                       /* without . and .. */
int new_file(const char *name);                                /* O_RDWR | O_CREAT | O_EXCL, 0644 */

#endif
