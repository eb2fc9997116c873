#include "fs/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static void to_stderr(enum sfs_log_level level, const char *text, void *ctx)
{
    static const char *const prefix[] = {"error: ", "warning: ", "", "debug: "};

    (void)ctx;
    fprintf(stderr, "spacesfs: %s%s\n", prefix[level], text);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the three below */
static sfs_log_sink current_sink = to_stderr;
static void *current_ctx;
static enum sfs_log_level current_level = SFS_LOG_INFO;

void sfs_log_set_sink(sfs_log_sink sink, void *ctx)
{
    pthread_mutex_lock(&mutex);
    current_sink = sink ? sink : to_stderr;
    current_ctx = sink ? ctx : NULL;
    pthread_mutex_unlock(&mutex);
}

void sfs_log_set_level(enum sfs_log_level level)
{
    pthread_mutex_lock(&mutex);
    current_level = level;
    pthread_mutex_unlock(&mutex);
}

void sfs_log(enum sfs_log_level level, const char *fmt, ...)
{
    int saved_errno = errno;
    sfs_log_sink sink;
    char text[2048];
    void *ctx;
    va_list ap;

    pthread_mutex_lock(&mutex);
    sink = level <= current_level ? current_sink : NULL;
    ctx = current_ctx;
    pthread_mutex_unlock(&mutex);
    if (sink) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        sink(level, text, ctx); /* not under the mutex: a sink may log */
    }
    errno = saved_errno;
}
