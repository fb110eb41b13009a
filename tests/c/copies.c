// Several copies of libibverbs in one process, each under a file name of its own: `copies LIBRARY...`. All are loaded
// first; then each has to show both cards, open one, and make a completion channel that events can come through.
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

static void *copy;

static void *function(const char *name)
{
	void *found = dlsym(copy, name);
	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return found;
}

#define CALL(name, ...) ((typeof(name) *)function(#name))(__VA_ARGS__)

static void need(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	void *copies[8];
	for (int i = 1; i < argc && i < 8; i++) {
		copies[i] = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		need(copies[i] != NULL, argv[i]);
	}
	for (int i = 1; i < argc && i < 8; i++) {
		int count = 0;
		copy = copies[i];
		struct ibv_device **list = CALL(ibv_get_device_list, &count);
		need(list != NULL, "ibv_get_device_list");
		printf("%s has %d devices\n", argv[i], count);
		need(count == 2, "two cards");
		struct ibv_context *context = CALL(ibv_open_device, list[1]);
		need(context != NULL, "ibv_open_device");
		struct ibv_comp_channel *channel = CALL(ibv_create_comp_channel, context);
		need(channel != NULL, "ibv_create_comp_channel");
		need(fcntl(channel->fd, F_GETFL) >= 0, "the channel's descriptor");
		struct ibv_cq *cq = CALL(ibv_create_cq, context, 16, NULL, channel, 0);
		need(cq != NULL, "ibv_create_cq");
		need(!CALL(ibv_destroy_cq, cq), "ibv_destroy_cq");
		need(!CALL(ibv_destroy_comp_channel, channel), "ibv_destroy_comp_channel");
		need(!CALL(ibv_close_device, context), "ibv_close_device");
		CALL(ibv_free_device_list, list);
	}
	return 0;
}
