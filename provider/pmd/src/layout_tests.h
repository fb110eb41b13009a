/* The start of each program of layout_tests.rs. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_flow_driver.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#define IS(what, value) _Static_assert((what) == (value), #what)

static inline void print(const void *from, size_t count)
{
    for (size_t n = 0; n < count; n++)
    	printf("%02x", ((const unsigned char *)from)[n]);
    putchar('\n');
}

