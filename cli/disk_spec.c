#include "cli/disk_spec.h"

#include <stdlib.h>
#include <string.h>
#include "cli/ui.h"
#include "fs/base/size.h"

static int parse_setting(const struct sfs_cli *c, const char *arg, char *setting, struct sfs_disk_spec *spec)
{
    struct sfs_error err = {0};
    char *value = strchr(setting, '=');
    if (value)
        *value++ = '\0';
    if (value && !strcmp(setting, "size")) {
        if (sfs_size_parse(value, "size", &spec->size_bytes, &err) == 0 && spec->size_bytes == 0)
            sfs_error_set(&err, -EINVAL, "size=0 makes no sense: leave it out to take all there is.");
    } else if (value && !strcmp(setting, "name")) {
        sfs_name_check(value, "name", &err);
        spec->name = value;
    } else {
        sfs_error_set(&err, -EINVAL, "`%s` is not a setting of a disk. Write PATH[,size=SIZE][,name=NAME].",
                      setting);
    }
    return err.code ? sfs_cli_usage(c, "%s: %s", arg, err.text) : 0;
}

static int parse_one(const struct sfs_cli *c, const char *arg, char *text, struct sfs_disk_spec *spec)
{
    char *next = strchr(text, ',');
    spec->path = text;
    while (next) {
        char *setting = next + 1;
        *next = '\0';
        next = strchr(setting, ',');
        if (next)
            *next = '\0';
        int code = parse_setting(c, arg, setting, spec);
        if (code)
            return code;
        if (next)
            *next = ',';
    }
    if (!*spec->path)
        return sfs_cli_usage(c, "`%s` doesn't begin with a path.", arg);
    return 0;
}

int sfs_disk_args_parse(const struct sfs_cli *c, char **args, unsigned n, struct sfs_disk_args *out)
{
    out->n = 0;
    out->specs = calloc(n, sizeof(*out->specs));
    out->texts = calloc(n, sizeof(*out->texts));
    if (!out->specs || !out->texts)
        sfs_ui_out_of_memory();
    for (unsigned i = 0; i < n; i++) {
        out->texts[i] = strdup(args[i]);
        if (!out->texts[i])
            sfs_ui_out_of_memory();
        out->n = i + 1;
        int code = parse_one(c, args[i], out->texts[i], &out->specs[i]);
        if (code)
            return code;
    }
    return 0;
}

void sfs_disk_args_free(struct sfs_disk_args *a)
{
    for (unsigned i = 0; i < a->n; i++)
        free(a->texts[i]);
    free(a->texts);
    free(a->specs);
}

/* What is on a disk now, in words; "" for nothing that would be missed. */
static void describe(struct sfs_cli *c, const char *path, struct sfs_disk_probe *probe, char *out, size_t cap)
{
    out[0] = '\0';
    if (sfs_disk_probe(c->env, path, NULL, probe, NULL))
        return; /* formatting it will say why */
    if (probe->has_label)
        snprintf(out, cap, "disk %s of pool %s", probe->label.disk_name, probe->label.pool_name);
    else if (probe->label_rc != -ENOENT)
        snprintf(out, cap, "a disk of a pool, with a label that can't be read");
    else
        snprintf(out, cap, "%s", probe->holds_data ? "a file with data in it" : probe->signature);
}

bool sfs_disk_args_confirm(struct sfs_cli *c, const struct sfs_disk_args *a)
{
    char list[1024] = "", what[200];
    size_t n = 0;
    struct sfs_disk_probe *probe = malloc(sizeof(*probe));
    if (!probe)
        sfs_ui_out_of_memory();
    for (unsigned i = 0; c->force && i < a->n; i++) {
        describe(c, a->specs[i].path, probe, what, sizeof(what));
        if (*what && n < sizeof(list))
            n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s (%s)", n ? ", " : "", a->specs[i].path,
                                  what);
    }
    free(probe);
    return !n || sfs_ui_confirm(c, "What is on these disks now will be lost: %s.", list);
}
