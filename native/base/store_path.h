/* Space for the names of a store's folders and files. */
#ifndef ORBITMQ_STORE_PATH_H
#define ORBITMQ_STORE_PATH_H

#define STORE_FOLDER_ROOM 4096u /* the store itself and the folders in it; PATH_MAX of Linux */
#define STORE_FILE_ROOM 4160u   /* <folder>/<at most 20 digits>, or with a suffix */

#endif
