#include "fs/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/base/log.h"

int sfs_error_set(struct sfs_error *e, int code, const char *fmt, ...)
{
    va_list ap;

    SFS_ASSERT(code < 0);
    if (e) {
        char text[sizeof(e->text)]; /* the arguments may include the old text */

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        e->code = code;
        snprintf(e->text, sizeof(e->text), "%s", text);
    }
    return code;
}

void sfs_bug(const char *file, int line, const char *what)
{
    sfs_log(SFS_LOG_ERROR, "this is a bug in spacesfs (%s:%d): %s", file, line, what);
    abort();
}
