/* The control protocol on a real pool of two directories: every command's arguments and replies, and what
 * hostile or clumsy clients send to the server. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/daemon/client.h"
#include "fs/daemon/control.h"
#include "fs/daemon/server.h"

static char base[64];
static struct sfs_env *env;
static struct sfs_pool *pool;
static struct sfs_mounts *mounts;
static struct sfs_server *server;
static int shutdowns;

static const char *at(const char *name)
{
    static char paths[4][128];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", base, name);
    return path;
}

static void on_shutdown(void *ctx)
{
    (void)ctx;
    __atomic_add_fetch(&shutdowns, 1, __ATOMIC_RELAXED);
}

static void on_change(void *ctx)
{
    (void)ctx;
}

static void open_pool(void)
{
    static char one[128], two[128];
    struct sfs_disk_spec disks[] = {{.path = one, .size_bytes = 256u << 20},
                                    {.path = two, .size_bytes = 256u << 20}};
    struct sfs_pool_create_opts create = {0};
    struct sfs_pool_open_opts opts = {0};
    struct sfs_error err = {0}, warn = {0};

    strcpy(base, "/tmp/sfs-control-XXXXXX");
    cr_assert(mkdtemp(base));
    strcpy(one, at("one"));
    strcpy(two, at("two"));
    cr_assert_eq(mkdir(one, 0700), 0);
    cr_assert_eq(mkdir(two, 0700), 0);
    env = sfs_env_new_real();
    cr_assert_eq(sfs_pool_create(env, "tank", disks, 2, &create, &warn, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_open(env, one, &opts, &pool, &err), 0, "%s", err.text);
}

static void clean(void)
{
    char command[128];

    sfs_env_free(env);
    snprintf(command, sizeof(command), "rm -rf '%s'", base);
    cr_assert_eq(system(command), 0);
}

static void close_pool(void)
{
    cr_assert_eq(sfs_pool_close(pool), 0);
    clean();
}

static void start_server(void)
{
    struct sfs_error err = {0};

    open_pool();
    mounts = sfs_mounts_new(pool, on_change, NULL);
    cr_assert_eq(sfs_server_start(pool, mounts, base, on_shutdown, NULL, &server, &err), 0, "%s", err.text);
}

static void stop_server(void)
{
    sfs_server_stop(server);
    sfs_mounts_free(mounts);
    cr_assert_eq(sfs_pool_close(pool), 0);
    sfs_server_free(server);
    clean();
}

TestSuite(run, .init = open_pool, .fini = close_pool, .timeout = 120);
TestSuite(server, .init = start_server, .fini = stop_server, .timeout = 120);

/* --- requests in one process ------------------------------------------------------------------ */

/* Runs a request written as JSON, with ' for ". */
static json_t *run(const char *text)
{
    char quoted[2048];
    json_error_t why;
    json_t *request, *reply;

    snprintf(quoted, sizeof(quoted), "%s", text);
    for (char *p = quoted; *p; p++)
        if (*p == '\'')
            *p = '"';
    request = json_loads(quoted, JSON_DECODE_ANY, &why);
    cr_assert(request, "%s: %s", text, why.text);
    reply = sfs_control_run(pool, request, NULL, NULL);
    cr_assert(json_is_boolean(json_object_get(reply, "ok")), "%s", text);
    json_decref(request);
    return reply;
}

static void succeeds(const char *text)
{
    json_t *reply = run(text);

    cr_assert(json_is_true(json_object_get(reply, "ok")), "%s: %s", text,
              json_string_value(json_object_get(json_object_get(reply, "error"), "text")));
    cr_assert(json_is_object(json_object_get(reply, "result")));
    json_decref(reply);
}

static void fails(const char *text, const char *code, const char *words)
{
    json_t *reply = run(text), *error = json_object_get(reply, "error");
    const char *said = json_string_value(json_object_get(error, "text"));

    cr_assert(json_is_false(json_object_get(reply, "ok")), "%s was accepted", text);
    cr_assert_str_eq(json_string_value(json_object_get(error, "code")), code, "%s: %s", text, said);
    cr_assert(json_integer_value(json_object_get(error, "errno")) > 0);
    cr_assert(said && strstr(said, words), "%s: %s", text, said);
    json_decref(reply);
}

/* The integer at result.LIST[0].MEMBER. */
static json_int_t first(const char *list, const char *member)
{
    json_t *reply = run("{'cmd':'status'}");
    json_t *value =
        json_object_get(json_array_get(json_object_get(json_object_get(reply, "result"), list), 0), member);
    json_int_t n = json_integer_value(value);

    cr_assert(json_is_integer(value), "%s.%s", list, member);
    json_decref(reply);
    return n;
}

Test(run, ping)
{
    json_t *reply = run("{'cmd':'ping'}"), *result = json_object_get(reply, "result");

    cr_assert_str_eq(json_string_value(json_object_get(result, "pool")), "tank");
    cr_assert_eq(json_integer_value(json_object_get(result, "pid")), getpid());
    cr_assert(json_string_value(json_object_get(result, "uuid")));
    json_decref(reply);
}

Test(run, spaces)
{
    succeeds("{'cmd':'space-create','name':'a','resiliency':'mirror2','size':'1.5G','columns':'auto','"
             "interleave':'64K','compression':'zstd:5'}");
    cr_assert_eq(first("spaces", "size_bytes"), 3LL << 29);
    cr_assert_eq(first("spaces", "interleave"), 65536);
    cr_assert_eq(first("spaces", "columns"), 0);
    succeeds("{'cmd':'space-set','name':'a','size':'2G'}");
    cr_assert_eq(first("spaces", "size_bytes"), 2LL << 30);
    succeeds("{'cmd':'space-rename','name':'a','to':'b'}");
    fails("{'cmd':'space-set','name':'a','size':'1G'}", "ENOENT", "a");
    succeeds("{'cmd':'space-destroy','name':'b'}");
    fails("{'cmd':'space-destroy','name':'b'}", "ENOENT", "b");
}

Test(run, values_that_make_no_sense)
{
    fails("{'cmd':'space-create','name':'a','resiliency':'raid6'}", "EINVAL", "raid6");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','size':'lots'}", "EINVAL", "lots");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','columns':'-1'}", "EINVAL", "-1");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','columns':'99'}", "EINVAL", "99");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','interleave':'1T'}", "ERANGE", "1T");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','provisioning':'thick'}", "EINVAL",
          "thick");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','compression':'lz4'}", "EINVAL", "lz4");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','compression':'zstd:'}", "EINVAL",
          "level");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','compression':'zstd:0'}", "EINVAL",
          "lowest");
    fails("{'cmd':'space-create','name':'a','resiliency':'mirror2','compression':'zstd:20'}", "EINVAL", "20");
    fails("{'cmd':'space-create','name':'a/b','resiliency':'mirror2'}", "EINVAL", "a/b");
    fails("{'cmd':'disk-set','disk':'nosuch','key':'usage','value':'retired'}", "ENOENT", "nosuch");
    fails("{'cmd':'disk-add','disks':[{'path':'relative'}]}", "EINVAL", "begin with /");
    fails("{'cmd':'disk-add','disks':[{'path':'/nonexistent/x','size':-1}]}", "EINVAL", "size");
    fails("{'cmd':'disk-add','disks':[{'path':'/nonexistent/x','size':'1Q'}]}", "EINVAL", "1Q");
    fails("{'cmd':'pool-get','key':'no such key'}", "EINVAL", "no such key");
}

Test(run, malformed)
{
    fails("{}", "EINVAL", "cmd");
    fails("{'cmd':7}", "EINVAL", "cmd");
    fails("{'cmd':null}", "EINVAL", "cmd");
    fails("[]", "EINVAL", "cmd");
    fails("'ping'", "EINVAL", "cmd");
    fails("{'cmd':'format-everything'}", "ENOSYS", "format-everything");
    fails("{'cmd':'ping','extra':1}", "EINVAL", "extra");
    fails("{'cmd':'status','extra':null}", "EINVAL", "extra");
    fails("{'cmd':'space-create'}", "EINVAL", "name");
    fails("{'cmd':'space-create','name':['a']}", "EINVAL", "malformed");
    fails("{'cmd':'space-create','name':'a','size':1}", "EINVAL", "malformed");
    fails("{'cmd':'events','after':-1}", "EINVAL", "after");
    fails("{'cmd':'events','max':'10'}", "EINVAL", "malformed");
    fails("{'cmd':'disk-add','disks':[]}", "EINVAL", "disks");
    fails("{'cmd':'disk-add','disks':{'path':'/x'}}", "EINVAL", "disks");
    fails("{'cmd':'disk-add','disks':[7]}", "EINVAL", "malformed");
    fails("{'cmd':'disk-add','disks':[{'path':'/x','path2':'/y'}]}", "EINVAL", "path2");
    fails("{'cmd':'heal','wait':'yes'}", "EINVAL", "malformed");
}

Test(run, a_daemons_own)
{
    fails("{'cmd':'mount','space':'a','dir':'/x','source':'tank/a'}", "EOPNOTSUPP", "daemon");
    fails("{'cmd':'umount','dir':'/x'}", "EOPNOTSUPP", "daemon");
    fails("{'cmd':'shutdown'}", "EOPNOTSUPP", "daemon");
}

Test(run, where_of_an_empty_space)
{
    succeeds("{'cmd':'space-create','name':'a','resiliency':'mirror2'}");
    fails("{'cmd':'where','space':'a','path':'/nosuch'}", "ENOENT", "/nosuch");
    fails("{'cmd':'where','space':'a','path':'/'}", "EINVAL", "regular");
    fails("{'cmd':'where','space':'b','path':'/x'}", "ENOENT", "b");
}

Test(run, events_and_sync)
{
    succeeds("{'cmd':'sync'}");
    succeeds("{'cmd':'events','after':0,'max':5}");
    succeeds("{'cmd':'events'}");
    succeeds("{'cmd':'pool-set','key':'heal-delay','value':'7m'}");
    succeeds("{'cmd':'pool-get','key':'heal-delay'}");
}

/* --- the server ------------------------------------------------------------------------------- */

static int dial(void)
{
    int fd = sfs_client_connect(base, "tank");

    cr_assert(fd >= 0, "%s", strerror(-fd));
    return fd;
}

/* What comes back until the line's end or the connection's; "" for an end at once. */
static const char *hear(int fd)
{
    static char line[65536];
    size_t n = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t got;

        cr_assert_eq(poll(&p, 1, 30000), 1, "no answer");
        got = recv(fd, line + n, 1, 0);
        if (got <= 0 || line[n] == '\n' || n + 2 == sizeof(line))
            break;
        n++;
    }
    line[n] = '\0';
    return line;
}

static void say(int fd, const void *bytes, size_t len)
{
    /* The other end may have closed in the middle: that is an answer, too. */
    ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

    (void)n;
}

static void still_works(void)
{
    int fd = dial();

    say(fd, "{\"cmd\":\"ping\"}\n", 15);
    cr_assert(strstr(hear(fd), "\"ok\":true"));
    close(fd);
}

Test(server, many_requests_on_one_connection)
{
    static const char two[] = "{\"cmd\":\"ping\"}\n{\"cmd\":\"mounts\"}\n";
    int fd = dial();

    say(fd, two, sizeof(two) - 1);
    cr_assert(strstr(hear(fd), "tank"));
    cr_assert(strstr(hear(fd), "\"mounts\":[]"));
    for (size_t i = 0; i < 15; i++)
        say(fd, &"{\"cmd\":\"ping\"}\n"[i], 1);
    cr_assert(strstr(hear(fd), "tank"));
    close(fd);
}

Test(server, hostile_lines)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
#define BYTES(s) {s, sizeof(s) - 1}
        BYTES("\n"),
        BYTES("nonsense\n"),
        BYTES("{\"cmd\":\n"),
        BYTES("{\"cmd\":\"ping\"} {\"cmd\":\"ping\"}\n"),
        BYTES("{\"cmd\":\"ping\",\"cmd\":\"shutdown\"}\n"),
        BYTES("{\"cmd\":\"pi\0ng\"}\n"),
        BYTES("{\"cmd\":\"pi\\u0000ng\"}\n"),
        BYTES("{\"cmd\":\"\xff\xfe\"}\n"),
        BYTES("{\"cmd\":\"events\",\"after\":1e999}\n"),
        BYTES("{\"cmd\":\"events\",\"after\":99999999999999999999999}\n"),
        BYTES("[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n"),
        BYTES("null\n"),
        BYTES("\0\0\0\0\n"),
        BYTES("{\"cmd\":\"mount\",\"space\":\"a\",\"dir\":\"x\",\"source\":\"tank/a\"}\n"),
        BYTES("{\"cmd\":\"mount\",\"space\":\"a\",\"dir\":\"/tmp\",\"source\":\"tank/"
              "a\",\"options\":\"nonsense\"}\n"),
        BYTES("{\"cmd\":\"mount\",\"space\":\"nosuch\",\"dir\":\"/tmp\",\"source\":\"tank/nosuch\"}\n"),
        BYTES("{\"cmd\":\"umount\",\"dir\":\"/nowhere\"}\n"),
        BYTES("{\"cmd\":\"remount\",\"dir\":\"/nowhere\",\"options\":\"ro\"}\n"),
#undef BYTES
    };
    int fd = dial();

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *said;

        say(fd, bad[i].bytes, bad[i].len);
        said = hear(fd);
        cr_assert(strstr(said, "\"ok\":false"), "case %zu: %s", i, said);
    }
    close(fd);
    still_works();
}

Test(server, too_long)
{
    static char bytes[200000];
    int fd = dial();

    memset(bytes, ' ', sizeof(bytes));
    say(fd, bytes, sizeof(bytes));
    cr_assert(strstr(hear(fd), "EMSGSIZE"));
    close(fd);
    memset(bytes, '[', 60000); /* within bounds, but deeper than anyone needs */
    bytes[60000] = '\n';
    fd = dial();
    say(fd, bytes, 60001);
    cr_assert(strstr(hear(fd), "\"ok\":false"));
    close(fd);
    still_works();
}

Test(server, half_a_request_is_given_up)
{
    int fd = dial();

    say(fd, "{\"cmd\":", 7);
    cr_assert_str_eq(hear(fd), ""); /* after 10 s */
    close(fd);
    still_works();
}

Test(server, clients_that_go_away)
{
    for (int i = 0; i < 200; i++) {
        int fd = dial();

        say(fd, "{\"cmd\":\"status\"}\n", i % 18);
        close(fd);
    }
    still_works();
}

Test(server, too_many_connections)
{
    int fds[64];

    for (int i = 0; i < 64; i++) {
        fds[i] = dial();
        say(fds[i], "{\"cmd\":\"ping\"}\n", 15);
        cr_assert(strstr(hear(fds[i]), "\"ok\":true"), "connection %d", i);
    }
    int fd = dial();
    cr_assert(strstr(hear(fd), "EBUSY"));
    close(fd);
    for (int i = 0; i < 64; i++)
        close(fds[i]);
    for (int i = 0; i < 50; i++) { /* those that have ended make room, soon */
        fd = dial();
        say(fd, "{\"cmd\":\"ping\"}\n", 15);
        bool ok = strstr(hear(fd), "\"ok\":true") != NULL;
        close(fd);
        if (ok)
            break;
        cr_assert_lt(i, 49);
        usleep(100000);
    }
}

Test(server, one_code_path)
{
    json_t *request =
               json_pack("{s:s, s:s, s:s}", "cmd", "space-create", "name", "a", "resiliency", "mirror2"),
           *reply = NULL;
    struct sfs_error err = {0};

    cr_assert_eq(sfs_control_ask(base, "tank", request, NULL, NULL, &reply), 0);
    cr_assert_eq(sfs_client_result(reply, &err), 0, "%s", err.text);
    json_decref(reply);
    cr_assert_eq(sfs_control_ask(base, "tank", request, NULL, NULL, &reply), 0);
    cr_assert_eq(sfs_client_result(reply, &err), -EEXIST, "%s", err.text);
    json_decref(reply);
    json_decref(request);
    cr_assert_eq(first("spaces", "size_bytes"), 0);
}

Test(server, nobody_there)
{
    json_t *request = json_pack("{s:s}", "cmd", "ping"), *reply = NULL;

    cr_assert_eq(sfs_control_ask(base, "other", request, NULL, NULL, &reply), -ENOENT);
    cr_assert_eq(sfs_control_ask(base, "../tank", request, NULL, NULL, &reply), -ENOENT);
    cr_assert_eq(sfs_control_ask("/nonexistent", "tank", request, NULL, NULL, &reply), -ENOENT);
    cr_assert_eq(sfs_client_find_mount(base, "/somewhere"), -ENOENT);
    json_decref(request);
}

Test(server, shutdown)
{
    json_t *request = json_pack("{s:s}", "cmd", "shutdown"), *reply = NULL;
    struct sfs_error err = {0};

    cr_assert_eq(sfs_control_ask(base, "tank", request, NULL, NULL, &reply), 0);
    cr_assert_eq(sfs_client_result(reply, &err), 0, "%s", err.text);
    cr_assert_eq(__atomic_load_n(&shutdowns, __ATOMIC_RELAXED), 1);
    cr_assert(sfs_mounts_closed(mounts));
    json_decref(request);
    json_decref(reply);
}

/* While it ends, those who wait for the end of their connection get it only after the pool is closed. */
Test(ending, connections_outlive_the_pool, .init = open_pool, .timeout = 120)
{
    struct sfs_error err = {0};
    struct pollfd p = {.events = POLLIN};

    mounts = sfs_mounts_new(pool, on_change, NULL);
    cr_assert_eq(sfs_server_start(pool, mounts, base, on_shutdown, NULL, &server, &err), 0, "%s", err.text);
    p.fd = dial();
    say(p.fd, "{\"cmd\":\"ping\"}\n", 15);
    cr_assert(strstr(hear(p.fd), "\"ok\":true"));
    sfs_server_stop(server);
    cr_assert_eq(poll(&p, 1, 200), 0, "the connection has ended");
    cr_assert_eq(sfs_client_connect(base, "tank"), -ENOENT);
    sfs_mounts_free(mounts);
    cr_assert_eq(sfs_pool_close(pool), 0);
    cr_assert_eq(poll(&p, 1, 200), 0, "the connection has ended");
    sfs_server_free(server);
    cr_assert_str_eq(hear(p.fd), "");
    close(p.fd);
    clean();
}
