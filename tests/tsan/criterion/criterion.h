/* Stands in for Criterion's header in builds with ThreadSanitizer, in which Criterion's own runner cannot start (its memory
 * arena lies where the sanitizer allows no mapping). Only what the tests use: each test runs in a child of its own. */
#ifndef SFS_TESTS_TSAN_CRITERION_H
#define SFS_TESTS_TSAN_CRITERION_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct shim_options {
    void (*init)(void);
    void (*fini)(void);
    int signal, exit_code;
    bool disabled;
    double timeout;
    const char *description;
};
struct shim_test {
    const char *suite, *name;
    void (*run)(void);
    struct shim_options options;
    struct shim_test *next;
};
struct shim_suite {
    const char *name;
    struct shim_options options;
    struct shim_suite *next;
};
static struct shim_test *shim_tests, **shim_last = &shim_tests;
static struct shim_suite *shim_suites;

#define Test(Suite, Name, ...)                                                                                       \
    static void shim_run_##Suite##_##Name(void);                                                                     \
    static struct shim_test shim_test_##Suite##_##Name = {                                                           \
        .suite = #Suite, .name = #Name, .run = shim_run_##Suite##_##Name, .options = {__VA_ARGS__}};                 \
    __attribute__((constructor)) static void shim_add_##Suite##_##Name(void)                                         \
    {                                                                                                                \
        *shim_last = &shim_test_##Suite##_##Name;                                                                    \
        shim_last = &shim_test_##Suite##_##Name.next;                                                                \
    }                                                                                                                \
    static void shim_run_##Suite##_##Name(void)

#define TestSuite(Suite, ...)                                                                                        \
    static struct shim_suite shim_suite_##Suite = {.name = #Suite, .options = {__VA_ARGS__}};                        \
    __attribute__((constructor)) static void shim_add_suite_##Suite(void)                                            \
    {                                                                                                                \
        shim_suite_##Suite.next = shim_suites;                                                                       \
        shim_suites = &shim_suite_##Suite;                                                                           \
    }                                                                                                                \
    _Static_assert(1, "")

#define SHIM_FAIL(what, ...) (fprintf(stderr, "%s:%d: %s.", __FILE__, __LINE__, what), fprintf(stderr, " " __VA_ARGS__), fprintf(stderr, "\n"), _exit(1))
#define SHIM_CHECK(cond, what, ...) ((cond) ? (void)0 : SHIM_FAIL(what, ##__VA_ARGS__))
#define cr_assert(cond, ...) SHIM_CHECK((cond), #cond, ##__VA_ARGS__)
#define cr_assert_not(cond, ...) SHIM_CHECK(!(cond), "not " #cond, ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...) SHIM_CHECK((a) == (b), #a " == " #b, ##__VA_ARGS__)
#define cr_assert_neq(a, b, ...) SHIM_CHECK((a) != (b), #a " != " #b, ##__VA_ARGS__)
#define cr_assert_lt(a, b, ...) SHIM_CHECK((a) < (b), #a " < " #b, ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...) SHIM_CHECK((a) <= (b), #a " <= " #b, ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...) SHIM_CHECK((a) > (b), #a " > " #b, ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...) SHIM_CHECK((a) >= (b), #a " >= " #b, ##__VA_ARGS__)
#define cr_assert_null(a, ...) SHIM_CHECK(!(a), #a " is NULL", ##__VA_ARGS__)
#define cr_assert_not_null(a, ...) SHIM_CHECK((a), #a " is not NULL", ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) SHIM_CHECK(strcmp((a), (b)) == 0, #a " is " #b, ##__VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) SHIM_CHECK(strcmp((a), (b)) != 0, #a " is not " #b, ##__VA_ARGS__)
#define cr_assert_str_empty(a, ...) SHIM_CHECK(!*(a), #a " is empty", ##__VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) SHIM_CHECK(memcmp((a), (b), (n)) == 0, #a " is " #b, ##__VA_ARGS__)
#define cr_assert_arr_neq(a, b, n, ...) SHIM_CHECK(memcmp((a), (b), (n)) != 0, #a " is not " #b, ##__VA_ARGS__)
#define cr_assert_fail(...) SHIM_FAIL("failed", ##__VA_ARGS__)
#define cr_fatal(...) SHIM_FAIL("failed", ##__VA_ARGS__)
#define cr_skip_test(...) (fprintf(stderr, "skipped: " __VA_ARGS__), fprintf(stderr, "\n"), exit(0))
#define cr_expect cr_assert
#define cr_expect_eq cr_assert_eq
#define cr_expect_str_eq cr_assert_str_eq
#define cr_log_info(...) (fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"))
#define cr_log_warn cr_log_info
#define cr_log_error cr_log_info

static void shim_child(const struct shim_test *t, const struct shim_suite *s)
{
    void (*init)(void) = t->options.init ? t->options.init : s ? s->options.init : NULL;
    void (*fini)(void) = t->options.fini ? t->options.fini : s ? s->options.fini : NULL;

    alarm(280);
    if (init)
        init();
    t->run();
    if (fini)
        fini();
    exit(0); /* the sanitizer's own exit code, if it has reported anything */
}

int main(void)
{
    unsigned tested = 0, failed = 0;

    for (struct shim_test *t = shim_tests; t; t = t->next) {
        struct shim_suite *s = shim_suites;
        int status = 0;
        bool good;
        pid_t child;

        while (s && strcmp(s->name, t->suite) != 0)
            s = s->next;
        if (t->options.disabled || (s && s->options.disabled))
            continue;
        fflush(NULL);
        child = fork();
        if (child == 0)
            shim_child(t, s);
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 2;
        good = t->options.signal ? WIFSIGNALED(status) && WTERMSIG(status) == t->options.signal
                                 : WIFEXITED(status) && WEXITSTATUS(status) == t->options.exit_code;
        tested++;
        if (!good) {
            failed++;
            fprintf(stderr, "FAIL %s/%s: status 0x%x\n", t->suite, t->name, status);
        }
    }
    fprintf(stderr, "tested %u, failed %u\n", tested, failed);
    return failed > 0 || tested == 0;
}

#endif
