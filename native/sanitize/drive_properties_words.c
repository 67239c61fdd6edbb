/* The same with the code for processors without SSE2, which replaces that of the core here. */
#undef __SSE2__
#include "format/properties.c"

#include "drive_properties.c"
