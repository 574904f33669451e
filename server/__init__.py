"""The HTTP interface of Vitrine: pages, API, job queue, one worker thread for the device, and the store."""
