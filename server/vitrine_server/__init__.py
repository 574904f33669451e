"""The HTTP interface of Vitrine: pages, API, job queue, processes that have the models, and the store."""
