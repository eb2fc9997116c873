/* Requests of the control protocol, as they come from a socket: one a line, run one after the other on one pool. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pool.h"

#include "fs/daemon/control.h"

static void run_line(struct sfs_pool *p, const char *line, size_t len)
{
    json_t *request = json_loadb(line, len, 0, NULL);
    if (!request)
        return;
    json_t *reply = sfs_control_run(p, request, NULL, NULL);
    FUZZ_CHECK(reply && json_is_boolean(json_object_get(reply, "ok")));
    if (json_is_false(json_object_get(reply, "ok"))) {
        const char *text = json_string_value(json_object_get(json_object_get(reply, "error"), "text"));
        FUZZ_CHECK(text && text[0]);
    }
    char *printed = json_dumps(reply, 0);
    FUZZ_CHECK(printed);
    free(printed);
    json_decref(reply);
    json_decref(request);
}

/* A path in a request would be opened for real: the pool must not be given the tester's own disks. */
static bool names_real_path(const char *line, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++)
        if (line[i] == '"' && (line[i + 1] == '/' || line[i + 1] == '.' || line[i + 1] == '\\'))
            return true;
    return false;
}

static void body(struct fuzz_pool *f)
{
    const char *at = (const char *)f->data, *end = at + f->size;
    struct sfs_pool *p = fuzz_pool_open(f, false);
    FUZZ_CHECK(p);
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        if (!names_real_path(at, len))
            run_line(p, at, len);
        at += len + 1;
    }
    fuzz_pool_use(p, "s");
    (void)sfs_pool_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size)
        fuzz_pool_run(data, size, body);
    return 0;
}
