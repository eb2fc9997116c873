/* Running one program for a bounded time, in a clean environment. */
#ifndef SFS_DAEMON_HOOK_RUN_H
#define SFS_DAEMON_HOOK_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "fs/base/env.h"

/* Runs path (its own process group, directory /, standard input from stdin_fd) and waits until deadline_ns; then it and its children are ended. argv and envp as execve(2).
 * 0: it ended with 0. 1: it did not; why says how, with the first line of what it printed. */
int sfs_hook_run(struct sfs_env *env, const char *path, char *const argv[], char *const envp[], int stdin_fd, uint64_t deadline_ns, char *why, size_t cap);

#endif
