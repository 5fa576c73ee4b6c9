def capture(request, folder): raise NotImplementedError
